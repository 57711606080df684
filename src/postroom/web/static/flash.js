"use strict";
// A page that reloads itself shows its flash message again: a message that is sent now changes its
// status, and so its page, within a second, before anyone could read the text.
(() => {
  const KEY = "postroom.flash", SECONDS = 20;
  const toast = document.getElementById("toast"), text = toast.querySelector(".flash-text");

  document.addEventListener("postroom:reload", () => {
    if (!toast.hidden) {
      const at = Number(toast.dataset.at) || Date.now();
      sessionStorage.setItem(KEY, JSON.stringify({ path: location.pathname, at, text: text.textContent }));
    }
    location.reload();
  });

  const kept = JSON.parse(sessionStorage.getItem(KEY) || "{}");
  sessionStorage.removeItem(KEY);
  if (kept.path !== location.pathname || Date.now() - kept.at > 1000 * SECONDS || !toast.hidden) return;
  toast.dataset.at = kept.at;
  text.textContent = kept.text;
  toast.hidden = false;
})();
