"use strict";
// The search (Ctrl-K) and single-key shortcuts, which can be turned off.
(() => {
  const palette = document.getElementById("palette");
  if (!palette) return;
  const field = document.getElementById("palette-query"), found = document.getElementById("palette-found");
  const shortcuts = document.getElementById("shortcuts"), toggle = document.getElementById("shortcuts-on");
  const KEY = "postroom.shortcuts", SEQUENCE = 1000, TYPING = 120;

  // -- the search ---------------------------------------------------------------------------------

  found.role = "listbox";
  found.ariaLabel = "Results";
  let asked = 0, timer = 0, selected = -1;
  const options = () => [...found.querySelectorAll("[role=option]")];

  function select(index) {
    const all = options();
    if (!all.length) { selected = -1; field.removeAttribute("aria-activedescendant"); return; }
    selected = (index + all.length) % all.length;
    all.forEach((each, at) => each.setAttribute("aria-selected", String(at === selected)));
    all[selected].scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", all[selected].id);
  }

  async function find() {
    const mine = ++asked, query = field.value;
    const answer = await fetch(`/search?q=${encodeURIComponent(query)}`, { headers: { "HX-Request": "true" } })
      .catch(() => null);
    if (mine !== asked) return;
    if (answer && answer.status === 401) { location.href = "/login"; return; }
    if (!answer || !answer.ok) { found.textContent = "The search is not available. Try again in a moment."; return; }
    { const html = await answer.text(); if (mine !== asked) return; found.innerHTML = html; }
    found.dataset.query = query;
    select(0);
  }

  function openSearch() {
    if (palette.open) return;
    field.value = "";
    palette.showModal();
    field.focus();
    find();
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(find, TYPING);
  });
  field.addEventListener("keydown", async (event) => {
    if (event.key === "ArrowDown") select(selected + 1);
    else if (event.key === "ArrowUp") select(selected - 1);
    else if (event.key === "Enter") {
      // The results may still be those of an earlier query: search for what was typed.
      if (found.dataset.query !== field.value) { clearTimeout(timer); await find(); }
      if (options()[selected]) location.href = options()[selected].href;
    } else return;
    event.preventDefault();
  });
  palette.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });
  for (const link of document.querySelectorAll("[data-open-search]")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      openSearch();
    });
  }

  // -- single keys --------------------------------------------------------------------------------

  const isOn = () => { try { return localStorage.getItem(KEY) !== "off"; } catch { return true; } };
  toggle.checked = isOn();
  toggle.addEventListener("change", () => {
    try { localStorage.setItem(KEY, toggle.checked ? "" : "off"); } catch { /* for this page only */ }
  });
  function openShortcuts() {
    for (const menu of document.querySelectorAll("[popover]:popover-open")) menu.hidePopover();
    shortcuts.showModal();
  }
  for (const button of document.querySelectorAll("[data-open-shortcuts]")) {
    button.hidden = false;
    button.addEventListener("click", openShortcuts);
  }
  shortcuts.querySelector("[data-close]").addEventListener("click", () => shortcuts.close());
  const places = new Map([...shortcuts.querySelectorAll("[data-keys]")].map((each) => [each.dataset.keys, each.dataset.url]));
  let before = "", at = 0;
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openSearch();
      return;
    }
    const target = event.composedPath()[0]; // also within the shadow root of the code editor
    const isTyping = target.closest?.("input, textarea, select, [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || !isOn()) return;
    const keys = before && Date.now() - at < SEQUENCE ? `${before} ${event.key}` : event.key;
    before = event.key;
    at = Date.now();
    if (event.key === "?") openShortcuts();
    else if (event.key === "/") openSearch();
    else if (places.has(keys)) location.href = places.get(keys);
    else if (places.has(event.key)) location.href = places.get(event.key);
    else {
      const arrow = { k: "prev", j: "next" }[event.key];
      const link = arrow && document.querySelector(`.neighbours a[rel=${arrow}][href]`);
      if (!link) return;
      link.click();
    }
    event.preventDefault();
  });
})();
