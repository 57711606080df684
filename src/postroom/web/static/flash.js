"use strict";
// A page that reloads itself shows its flash message again: a message that is sent now changes its
// status, and so its page, within a second, before anyone could read the text.
(() => {
  const KEY = "postroom.flash", SECONDS = 20;
  const find = () => document.querySelector("main > .flash");

  document.addEventListener("postroom:reload", () => {
    const flash = find();
    if (flash) {
      const at = Number(flash.dataset.at) || Date.now();
      sessionStorage.setItem(KEY, JSON.stringify({ path: location.pathname, at, text: flash.textContent }));
    }
    location.reload();
  });

  const kept = JSON.parse(sessionStorage.getItem(KEY) || "{}");
  sessionStorage.removeItem(KEY);
  if (kept.path !== location.pathname || Date.now() - kept.at > 1000 * SECONDS || find()) return;
  const flash = document.createElement("p");
  flash.className = "flash";
  flash.setAttribute("role", "status");
  flash.dataset.at = kept.at;
  flash.textContent = kept.text;
  document.getElementById("main").prepend(flash);
})();
