"use strict";
// Where people come from: breadcrumbs lead back to a table as it was (its filter, its order and the
// scroll position), and arrows lead to the previous and next of its rows.
(() => {
  const INDEX = "postroom.index:", ROWS = "postroom.rows", BACK = "postroom.back";
  const read = (key) => { try { return JSON.parse(sessionStorage.getItem(key)); } catch { return null; } };
  const write = (key, value) => { try { sessionStorage.setItem(key, JSON.stringify(value)); } catch { /* without it */ } };
  const table = document.querySelector("main [data-rows] table");

  if (table) {
    // A table of items: remember how it is left.
    window.addEventListener("pagehide", () => {
      write(INDEX + location.pathname, { search: location.search, scroll: window.scrollY });
    });
    const remember = () => write(ROWS, [...table.querySelectorAll("tbody tr")]
      .map((row) => row.querySelector("td:not(.select) a[href]"))
      .filter(Boolean).map((link) => link.pathname + link.search));
    table.addEventListener("click", remember);
    if (read(BACK) === location.href) {
      const left = read(INDEX + location.pathname);
      if (left) window.scrollTo(0, left.scroll);
    }
  }
  try { sessionStorage.removeItem(BACK); } catch { /* without it */ }

  for (const link of document.querySelectorAll(".crumbs > a[href]")) {
    const left = read(INDEX + link.getAttribute("href"));
    if (!left) continue;
    link.href += left.search;
    link.addEventListener("click", () => write(BACK, link.href));
  }

  const arrows = document.querySelector(".neighbours"), rows = read(ROWS) || [];
  const here = rows.indexOf(location.pathname + location.search);
  if (arrows && here >= 0 && rows.length > 1) {
    for (const [rel, label, icon, to] of [["prev", "Previous", "left", rows[here - 1]], ["next", "Next", "chevron", rows[here + 1]]]) {
      const link = document.createElement("a");
      link.className = "button";
      link.rel = rel;
      link.setAttribute("aria-label", label);
      if (to) link.href = to; else { link.role = "link"; link.setAttribute("aria-disabled", "true"); }
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
      use.setAttribute("href", `${arrows.dataset.icons}#${icon}`);
      svg.setAttribute("class", "icon");
      svg.setAttribute("aria-hidden", "true");
      svg.append(use);
      link.append(svg);
      arrows.append(link);
    }
    arrows.hidden = false;
  }
})();
