"use strict";
// Search, the menu on a phone, buttons that copy code, and diagrams. Works from disk: the index of the
// search is a script, which is loaded when somebody searches for the first time.
(() => {
  const base = document.body.dataset.base;
  const dialog = document.getElementById("search");
  const query = document.getElementById("query");
  const found = document.getElementById("found");
  const MOST = 12;
  let index;

  // -- search ------------------------------------------------------------------------------------

  function load(name) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${base}/assets/${name}`;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${name} is missing`));
      document.head.append(script);
    });
  }

  function indexed() {
    index ??= Promise.all([load("lunr.js"), load("search-index.js")]).then(() => {
      const sections = window.postroomSections;
      return lunr(function () {
        this.ref("number");
        this.field("title", { boost: 10 });
        this.field("text");
        sections.forEach((each, number) => this.add({ number, title: each.title, text: each.text }));
      });
    });
    return index;
  }

  function matches(searchable, words) {
    return searchable.query((wanted) => {
      for (const word of words) {
        wanted.term(lunr.tokenizer(word), { boost: 10, usePipeline: true });
        wanted.term(lunr.tokenizer(word), { wildcard: lunr.Query.wildcard.TRAILING, usePipeline: false });
      }
    });
  }

  // Sections with all of the words come first.
  function best(searchable, words) {
    const sections = window.postroomSections;
    const rated = matches(searchable, words).map(({ ref, score }) => {
      const section = sections[ref];
      const text = `${section.title} ${section.text}`.toLowerCase();
      return { section, score, count: words.filter((word) => text.includes(word)).length };
    });
    rated.sort((a, b) => b.count - a.count || b.score - a.score);
    return rated.slice(0, MOST).map((each) => each.section);
  }

  function marked(text, words) {
    const piece = document.createElement("span");
    const pattern = new RegExp(`(${words.map((word) => word.replace(/\W/g, "\\$&")).join("|")})`, "i");
    for (const [number, part] of text.split(pattern).entries()) {
      if (number % 2 === 0) piece.append(part);
      else piece.append(Object.assign(document.createElement("mark"), { textContent: part }));
    }
    return piece;
  }

  function excerpt(text, words) {
    const first = Math.min(...words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0));
    const start = Number.isFinite(first) ? Math.max(0, text.lastIndexOf(" ", first - 40) + 1) : 0;
    return `${start ? "… " : ""}${text.slice(start, start + 160).trim()}${text.length > start + 160 ? " …" : ""}`;
  }

  function entry(section, words, number) {
    const link = document.createElement("a");
    link.href = `${base}/${section.location}`;
    link.id = `found-${number}`;
    link.setAttribute("role", "option");
    link.setAttribute("aria-selected", String(number === 0));
    const title = document.createElement("b");
    title.append(marked(section.page === section.title ? section.title : `${section.page}: ${section.title}`, words));
    link.append(title, marked(excerpt(section.text, words), words));
    return link;
  }

  async function show() {
    const searchable = await indexed();
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const sections = words.length ? best(searchable, words) : [];
    found.replaceChildren(...sections.map((section, number) => entry(section, words, number)));
    if (words.length && !sections.length) {
      found.append(Object.assign(document.createElement("p"), { textContent: "Nothing found." }));
    }
    select(0);
  }

  function select(number) {
    const links = [...found.querySelectorAll("a")];
    links.forEach((link, at) => link.setAttribute("aria-selected", String(at === number)));
    if (links[number]) {
      query.setAttribute("aria-activedescendant", links[number].id);
      links[number].scrollIntoView({ block: "nearest" });
    } else query.removeAttribute("aria-activedescendant");
  }

  function open() {
    dialog.showModal();
    query.select();
    show();
  }

  const button = document.querySelector(".open-search");
  button.hidden = false;
  button.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (((event.ctrlKey || event.metaKey) && event.key === "k") || (event.key === "/" && !typing)) {
      event.preventDefault();
      if (!dialog.open) open();
    }
  });
  query.addEventListener("input", show);
  query.addEventListener("keydown", (event) => {
    const links = [...found.querySelectorAll("a")];
    const now = links.findIndex((link) => link.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      select((now + (event.key === "ArrowDown" ? 1 : links.length - 1)) % (links.length || 1));
    } else if (event.key === "Enter" && links[now]) {
      links[now].click();
    }
  });
  found.addEventListener("click", (event) => { if (event.target.closest("a")) dialog.close(); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  // -- the menu on a phone -----------------------------------------------------------------------

  const menu = document.querySelector(".menu-button");
  menu.hidden = false;
  document.documentElement.dataset.menu = "closed";
  menu.addEventListener("click", () => {
    const isOpen = document.documentElement.dataset.menu === "open";
    document.documentElement.dataset.menu = isOpen ? "closed" : "open";
    menu.setAttribute("aria-expanded", String(!isOpen));
  });

  // -- code and diagrams -------------------------------------------------------------------------

  for (const box of navigator.clipboard ? document.querySelectorAll(".code-box") : []) {
    const copy = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: "Copy" });
    copy.addEventListener("click", async () => {
      const text = box.querySelector("code").cloneNode(true);
      for (const prompt of text.querySelectorAll(".gp")) prompt.remove();
      await navigator.clipboard.writeText(text.textContent.trim());
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
    box.append(copy);
  }

  if (window.mermaid) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    mermaid.initialize({ startOnLoad: false, theme: dark ? "dark" : "neutral", fontFamily: "inherit" });
    for (const diagram of document.querySelectorAll("pre.mermaid")) diagram.textContent = diagram.textContent;
    mermaid.run({ querySelector: "pre.mermaid" });
  }
})();
