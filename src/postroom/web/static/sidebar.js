"use strict";
// The width of the sidebar, as it was chosen last in this browser.
(() => {
  const KEY = "postroom.sidebar", root = document.documentElement;
  const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  if (stored() === "small") root.dataset.sidebar = "small";
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-toggle-sidebar]");
    if (!button) return;
    const label = () => {
      const isSmall = root.dataset.sidebar === "small";
      button.setAttribute("aria-label", isSmall ? "Expand the sidebar" : "Collapse the sidebar");
      // Without their text, the icons have a tooltip.
      for (const place of document.querySelectorAll(".sidebar nav .place")) {
        if (isSmall) place.title = place.textContent.trim(); else place.removeAttribute("title");
      }
    };
    button.hidden = false;
    button.addEventListener("click", () => {
      if (root.dataset.sidebar === "small") delete root.dataset.sidebar; else root.dataset.sidebar = "small";
      try { localStorage.setItem(KEY, root.dataset.sidebar || ""); } catch { /* for this page only */ }
      label();
    });
    label();
  });
})();
