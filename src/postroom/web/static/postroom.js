"use strict";
// The menu on a phone.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.menu");
  if (!button) return;
  const open = document.getElementById("navigation").classList.toggle("open");
  button.setAttribute("aria-expanded", String(open));
});

// htmx requests carry the CSRF token of their page.
document.addEventListener("htmx:config:request", (event) => {
  const token = document.querySelector('meta[name="csrf-token"]');
  const request = event.detail.ctx ? event.detail.ctx.request : event.detail;
  if (token) request.headers["X-CSRF-Token"] = token.content;
});
