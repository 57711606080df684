"use strict";
// The outbox. The parts of an email are tabs, and on a wide screen the selected email is shown next
// to the list. Without this script, the parts stand below each other, and an email is a page.
(() => {
  // -- tabs -----------------------------------------------------------------------------------------

  let part = "";  // the heading of the part that was chosen last: it stays for the next email

  function makeTabs(parts) {
    const panels = [...parts.querySelectorAll(".mail-part")];
    const bar = document.createElement("div");
    bar.className = "tabs";
    bar.role = "tablist";
    bar.ariaLabel = "Parts of the email";
    const tabs = panels.map((panel) => {
      const heading = panel.querySelector("h2, h3"), tab = document.createElement("button");
      tab.type = "button";
      tab.role = "tab";
      tab.id = heading.id;
      tab.textContent = heading.textContent;
      panel.id = `${heading.id}-panel`;
      panel.role = "tabpanel";
      tab.setAttribute("aria-controls", panel.id);
      heading.remove();
      return tab;
    });
    const choose = (index) => {
      part = tabs[index].textContent;
      tabs.forEach((tab, at) => {
        tab.setAttribute("aria-selected", String(at === index));
        tab.tabIndex = at === index ? 0 : -1;
        panels[at].hidden = at !== index;
      });
    };
    tabs.forEach((tab, index) => tab.addEventListener("click", () => choose(index)));
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (tabs.indexOf(event.target) + step + tabs.length) % tabs.length;
      choose(next);
      tabs[next].focus();
    });
    bar.append(...tabs);
    parts.prepend(bar);
    choose(Math.max(0, tabs.findIndex((tab) => tab.textContent === part)));
  }

  for (const parts of document.querySelectorAll(".mail-parts")) makeTabs(parts);

  // -- the email next to the list -------------------------------------------------------------------

  const reading = document.getElementById("reading");
  if (!reading) return;
  const wide = window.matchMedia("(min-width: 64rem)");
  const links = [...document.querySelectorAll(".reader-list td.subject > a")];
  let shown = -1, latest = 0;

  function address(index) {
    const url = new URL(location.href);
    if (links[index]) url.searchParams.set("open", links[index].dataset.name); else url.searchParams.delete("open");
    return url.pathname + url.search;
  }

  async function show(index) {
    const link = links[index], request = ++latest;
    const answer = await fetch(link.href, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (request !== latest) return;
    if (!answer || !answer.ok) { location.href = link.href; return; }
    { const html = await answer.text(); if (request !== latest) return; reading.innerHTML = html; }
    reading.hidden = false;
    for (const parts of reading.querySelectorAll(".mail-parts")) makeTabs(parts);
    reading.dispatchEvent(new Event("postroom:inserted", { bubbles: true }));
    reading.scrollTop = 0;
    shown = index;
    for (const button of reading.querySelectorAll("[data-step]")) {
      const to = index + Number(button.dataset.step);
      button.disabled = !links[to];
      button.addEventListener("click", () => step(Number(button.dataset.step)));
    }
    // After a deletion, the next email is shown, or the one before if there is none.
    const back = reading.querySelector("input[name=back]");
    if (back) back.value = address(links[index + 1] ? index + 1 : index - 1);
    links.forEach((each, at) => {
      each.closest("tr").toggleAttribute("data-open", at === index);
      if (at === index) each.setAttribute("aria-current", "true"); else each.removeAttribute("aria-current");
    });
  }

  async function step(by) {
    if (!links[shown + by]) return;
    links[shown + by].scrollIntoView({ block: "nearest" });
    await show(shown + by);
    history.replaceState(null, "", address(shown));
    reading.querySelector(`[data-step="${by}"]:enabled`)?.focus();
  }

  links.forEach((link, index) => link.addEventListener("click", (event) => {
    if (!wide.matches || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    show(index).then(() => history.replaceState(null, "", address(index)));
  }));
  document.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const isList = event.target === document.body || links.includes(event.target);
    if (!by || !isList || !wide.matches || !links[shown + by]) return;
    event.preventDefault();
    links[shown + by].focus();
    show(shown + by).then(() => history.replaceState(null, "", address(shown)));
  });
  const open = new URLSearchParams(location.search).get("open");
  const first = Math.max(0, links.findIndex((link) => link.dataset.name === open));
  if (wide.matches && links.length) {
    show(first);
    if (first) links[first].scrollIntoView({ block: "center" });
  }
})();
