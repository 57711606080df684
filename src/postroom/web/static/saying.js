"use strict";
// A page that reloads itself says again what it has just said, or nobody could read it: a message
// that goes out now has another status, and so another page, within a second.
(() => {
  const KEPT = "postroom.said", SECONDS = 20;
  const find = () => document.querySelector("main > .said");

  document.addEventListener("postroom:reload", () => {
    const said = find();
    if (said) {
      const at = Number(said.dataset.at) || Date.now();
      sessionStorage.setItem(KEPT, JSON.stringify({ path: location.pathname, at, text: said.textContent }));
    }
    location.reload();
  });

  const kept = JSON.parse(sessionStorage.getItem(KEPT) || "{}");
  sessionStorage.removeItem(KEPT);
  if (kept.path !== location.pathname || Date.now() - kept.at > 1000 * SECONDS || find()) return;
  const said = document.createElement("p");
  said.className = "said";
  said.setAttribute("role", "status");
  said.dataset.at = kept.at;
  said.textContent = kept.text;
  document.getElementById("main").prepend(said);
})();
