"use strict";
// A toast stays until it is dismissed or the page is left.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-dismiss]");
  if (button) button.closest(".toast").hidden = true;
});
for (const button of document.querySelectorAll("[data-dismiss]")) button.hidden = false;

// Menus close when something else is clicked, and with Escape.
document.addEventListener("click", (event) => {
  const clicked = event.target.closest("details.menu-button");
  for (const menu of document.querySelectorAll("details.menu-button[open]")) if (menu !== clicked) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest("details.menu-button[open]");
  if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
});

// On a phone, tabs may be wider than the screen: show the current one.
for (const tab of document.querySelectorAll(".tabs [aria-current=page]")) {
  const tabs = tab.parentElement;
  tabs.scrollLeft += tab.getBoundingClientRect().left - tabs.getBoundingClientRect().left - (tabs.clientWidth - tab.offsetWidth) / 2;
}

// htmx requests carry the CSRF token of their page.
document.addEventListener("htmx:config:request", (event) => {
  const token = document.querySelector('meta[name="csrf-token"]');
  const request = event.detail.ctx ? event.detail.ctx.request : event.detail;
  if (token) request.headers["X-CSRF-Token"] = token.content;
});
