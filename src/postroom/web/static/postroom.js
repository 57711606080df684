"use strict";
// A toast stays until it is dismissed or the page is left.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-dismiss]");
  if (button) button.closest(".toast").hidden = true;
});
for (const button of document.querySelectorAll("[data-dismiss]")) button.hidden = false;

// htmx requests carry the CSRF token of their page.
document.addEventListener("htmx:config:request", (event) => {
  const token = document.querySelector('meta[name="csrf-token"]');
  const request = event.detail.ctx ? event.detail.ctx.request : event.detail;
  if (token) request.headers["X-CSRF-Token"] = token.content;
});
