"use strict";
// The outbox on a wide screen: the selected email is shown next to the list.
(() => {
  const reading = document.getElementById("reading");
  if (!reading) return;
  const wide = window.matchMedia("(min-width: 64rem)");
  const links = [...document.querySelectorAll(".reader-list tbody td:first-child > a")];
  let shown = -1, latest = 0;

  async function show(index) {
    const link = links[index], request = ++latest;
    const answer = await fetch(link.href, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (request !== latest) return;
    if (!answer || !answer.ok) { location.href = link.href; return; }
    { const html = await answer.text(); if (request !== latest) return; reading.innerHTML = html; }
    reading.hidden = false;
    reading.scrollTop = 0;
    shown = index;
    links.forEach((each, at) => {
      each.closest("tr").toggleAttribute("data-open", at === index);
      if (at === index) each.setAttribute("aria-current", "true"); else each.removeAttribute("aria-current");
    });
  }

  links.forEach((link, index) => link.addEventListener("click", (event) => {
    if (!wide.matches || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    show(index);
  }));
  document.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const isList = event.target === document.body || links.includes(event.target);
    if (!step || !isList || !wide.matches || !links[shown + step]) return;
    event.preventDefault();
    links[shown + step].focus();
    show(shown + step);
  });
  if (wide.matches && links.length) show(0);
})();
