// The canvas: a frame with the email as the server compiles it. Nothing runs in the frame; this page
// listens to its events. Its document is changed in place, so that nothing flickers.
import { replaceContent, replaceWords, selectIn, selectionIn } from "./canvas_text.js";
import { blockAt, indexOf, walk } from "./model.js";
import { kindOf, nameOf } from "./catalogue.js";

const PLACE = /(?:^|\s)pr-block-([\d-]+)(?:\s|$)/;
const MOST_TEXTS = 500;
const STYLE = `
  html { overflow: auto hidden; } /* the frame is as high as the document */
  .pr-block { position: relative; cursor: default; outline: 0 solid #27509b; outline-offset: -2px; }
  .pr-block:hover { outline: 1px solid #9db4dd; outline-offset: -1px; }
  .pr-block:focus-visible { outline-width: 2px; }
  .pr-block[data-condition]::after { content: "Shown if " attr(data-condition); position: absolute; bottom: 0; left: 8px; max-width: 60%; padding: 0 8px; overflow: hidden; border-radius: 6px; background: #e8eefb; color: #1f3f7a; font: 500 11px/16px system-ui, sans-serif; text-overflow: ellipsis; white-space: nowrap; pointer-events: none; }
  .pr-block.pr-selected { outline: 2px solid #27509b; outline-offset: -2px; border-radius: 2px; }
  [contenteditable] { outline: 0; cursor: text; min-height: 1em; }
  .page > .card:only-child:not(:has(.pr-block)) { min-height: 15rem; } /* a sheet to write on */
  .pr-column > table { min-height: 40px; }
  .pr-column:has(> .pr-add) > table { display: none; }
  .pr-add { display: block; width: calc(100% - 16px); margin: 8px; padding: 14px 4px; border: 1px dashed #8c8577; border-radius: 6px; background: transparent; color: #5c574d; font: 500 13px system-ui, sans-serif; cursor: pointer; }
  .pr-add:hover, .pr-add:focus-visible { border-color: #27509b; color: #27509b; outline: 0; }
  .pr-drop { position: absolute; z-index: 9; height: 4px; border-radius: 2px; background: #27509b; pointer-events: none; }
  a { cursor: inherit; }
`;

export class Canvas {
  constructor(frame) {
    this.frame = frame;
    this.sites = "";
    this.selected = "";
    this.doc = null;
    this.blocks = new Map(); // the block that each element with a place shows
    this.typed = new Set();  // blocks that were typed into since the document was asked for
    this.texts = new Map();  // what is shown of the HTML of a text; the latest is last
    this.resized = () => {};
    this.attach = () => {};
  }

  get body() { return this.doc.body; }

  // Load the empty document. A policy cannot change later, so other sites of pictures need another one.
  async load(sites) {
    const url = `/messages/canvas${sites ? `?sites=${encodeURIComponent(sites)}` : ""}`;
    const isReady = () => this.frame.contentDocument?.readyState === "complete" && this.frame.contentWindow.location.href.endsWith(url);
    if (!isReady() || this.doc) {
      await new Promise((resolve) => {
        this.frame.addEventListener("load", resolve, { once: true });
        if (this.doc || !this.frame.contentWindow.location.href.endsWith(url)) this.frame.src = url;
        else if (isReady()) resolve();
      });
    }
    this.sites = sites;
    this.doc = this.frame.contentDocument;
    this.attach(this.doc);
    new ResizeObserver(() => this.fit()).observe(this.doc.documentElement);
  }

  fit() {
    this.frame.style.height = `${Math.max(200, Math.ceil(this.doc.documentElement.getBoundingClientRect().height))}px`;
    this.resized();
  }

  // A document that nothing runs in. The frame parses it, because its policy allows inline styles.
  parse(html) { return new this.frame.contentWindow.DOMParser().parseFromString(html, "text/html"); }

  // Get ready to show pictures of these sites. Returns whether the canvas is empty now.
  async prepare(sites) {
    if (this.doc && (!sites || sites === this.sites)) return false;
    await this.load(sites);
    return true;
  }

  // Show the document of a message. What is being typed into stays as it is, unless `isForced`.
  show(html, message, { isForced = false } = {}) {
    const next = this.parse(html);
    for (const each of next.querySelectorAll("script, base, meta[http-equiv]")) each.remove();
    const style = next.createElement("style");
    style.textContent = STYLE;
    next.head.append(style);
    this.decorate(next, message);
    this.carryOver(next, message);
    const typing = isForced || !this.doc.hasFocus() ? null : this.doc.activeElement?.closest?.("[contenteditable]");
    const place = typing?.closest("[data-place]")?.dataset.place, selected = typing && selectionIn(typing);
    morph(this.doc.documentElement, next.documentElement, typing);
    if (typing && !typing.isConnected) this.typeOn(place, selected); // what is around it has changed
    this.blocks = new Map([...this.doc.querySelectorAll("[data-place]")].map((each) => [each, blockAt(message, each.dataset.place)]));
    for (const [element, block] of this.blocks) this.remember(block, element.querySelector("[contenteditable]"));
    this.blend();
    this.fit();
  }

  // Give what is around the frame the colour of the email's page.
  blend() {
    const colour = this.frame.contentWindow.getComputedStyle(this.body).backgroundColor;
    const [red, green, blue, opacity = 1] = colour.match(/[\d.]+/g).map(Number);
    const surround = this.frame.parentElement;
    surround.style.backgroundColor = opacity ? colour : "";
    surround.dataset.theme = opacity && red * 0.3 + green * 0.6 + blue * 0.1 < 128 ? "dark" : "light";
  }

  // Keep what is shown of a text, so that undo can show it immediately.
  remember(block, editable) {
    if (block?.type !== "text" || !editable) return;
    this.texts.delete(block.html);
    this.texts.set(block.html, editable.innerHTML);
    if (this.texts.size > MOST_TEXTS) this.texts.delete(this.texts.keys().next().value);
  }

  // Show the texts of a message before the server has compiled it: typing continues in these.
  showTexts(message) {
    for (const [place, block] of this.doc ? walk(message) : []) {
      const editable = this.editable(place);
      if (!editable) continue;
      if (block.type === "heading") {
        if (editable.textContent !== block.text) replaceContent(editable, [this.doc.createTextNode(block.text)]);
        continue;
      }
      const shown = this.texts.get(block.html) ?? editable.innerHTML;
      if (shown !== editable.innerHTML) replaceContent(editable, [...this.doc.importNode(this.parse(shown).body, true).childNodes]);
    }
  }

  // Copy what was typed since the next document was asked for: that document is older.
  carryOver(next, message) {
    for (const [place, block] of walk(message)) {
      const from = this.typed.has(block) && this.editable(place), to = from && editableIn(next, place);
      if (to) to.replaceChildren(...[...from.childNodes].map((each) => next.importNode(each, true)));
    }
  }

  // The message has changed, and is shown later: until then, each element has the new place of its block,
  // or none. `become` says which blocks have been replaced by others.
  renumber(message, become = null) {
    const places = new Map([...walk(message)].map(([place, block]) => [block, place]));
    for (const [element, block] of this.blocks) {
      const current = become ? become.get(block) : block;
      this.blocks.set(element, current);
      element.dataset.place = places.get(current) ?? "";
    }
  }

  decorate(doc, message) {
    const seen = new Set();
    for (const element of doc.querySelectorAll(".pr-block, .pr-column")) {
      const place = PLACE.exec(element.className)?.[1];
      if (!place) continue;
      if (element.classList.contains("pr-column")) { decorateColumn(doc, element, place); continue; }
      const block = blockAt(message, place);
      if (!block) continue;
      element.dataset.place = place;
      if (place === this.selected) element.classList.add("pr-selected");
      if (seen.has(place)) continue;
      seen.add(place);
      element.tabIndex = 0;
      element.setAttribute("role", "group");
      element.setAttribute("aria-label", nameOf(block));
      const condition = block.condition?.trim();
      if (condition) element.dataset.condition = condition;
      if (kindOf(block).isText) makeEditable(element, block);
    }
    for (const table of doc.querySelectorAll("table")) table.setAttribute("role", "presentation");
  }

  elements(place) { return [...this.doc.querySelectorAll(`[data-place="${place}"]`)]; }
  editable(place) { return editableIn(this.doc, place); }

  // The place of a column, as that of its block is now.
  containerAt(column) {
    const outer = column.closest("[data-place]")?.dataset.place;
    return outer ? `${outer}-${indexOf(PLACE.exec(column.className)[1])}` : "";
  }

  select(place) {
    this.selected = place;
    for (const each of this.doc.querySelectorAll(".pr-selected")) each.classList.remove("pr-selected");
    for (const each of this.elements(place)) each.classList.add("pr-selected");
  }

  focus(place, inText = false) {
    const target = (inText && this.editable(place)) || this.elements(place)[0];
    this.frame.contentWindow.focus();
    target?.focus({ preventScroll: false });
    return target;
  }

  typeOn(place, selected) {
    const editable = this.editable(place);
    editable?.focus({ preventScroll: true });
    if (editable && selected) selectIn(editable, selected);
  }

  // Select the words of a text, so that typing replaces them.
  selectWords(place) {
    const editable = this.editable(place);
    if (editable) this.doc.getSelection().selectAllChildren(editable.querySelector("p") ?? editable);
  }

  rectangle(place) {
    const all = this.elements(place).map((each) => each.getBoundingClientRect());
    if (!all.length) return null;
    return { top: Math.min(...all.map((each) => each.top)), bottom: Math.max(...all.map((each) => each.bottom)), right: all[0].right, left: all[0].left };
  }

  // Where something would be dropped: a container, and an index in it.
  dropPlace(x, y, fitsColumn) {
    const under = this.doc.elementFromPoint(x, y);
    const column = fitsColumn && under?.closest?.(".pr-column");
    const container = column ? this.containerAt(column) : "";
    const inside = (place) => (container === "" ? !place.includes("-") : place.startsWith(`${container}-`));
    const places = [...new Set([...this.doc.querySelectorAll("[data-place]")].map((each) => each.dataset.place))].filter((place) => place && inside(place));
    let index = 0, at = null;
    for (const place of places) {
      const { top, bottom } = this.rectangle(place);
      if (y > (top + bottom) / 2) { index += 1; at = place; }
    }
    return { container, index, after: at, next: places[index], column };
  }

  markDrop(target) {
    this.clearDrop();
    if (!target) return;
    const after = target.after && this.rectangle(target.after), before = target.next && this.rectangle(target.next);
    const around = target.column?.getBoundingClientRect() ?? this.doc.querySelector(".card, .page")?.getBoundingClientRect() ?? this.body.getBoundingClientRect();
    const mark = this.doc.createElement("div");
    mark.className = "pr-drop";
    const top = after ? after.bottom : before ? before.top : around.top + around.height / 2;
    Object.assign(mark.style, { top: `${top - 2}px`, left: `${around.left + 8}px`, width: `${around.width - 16}px` });
    this.body.append(mark);
  }

  clearDrop() { for (const each of this.doc.querySelectorAll(".pr-drop")) each.remove(); }
}

function editableIn(doc, place) { return doc.querySelector(`[data-place="${place}"] [contenteditable]`); }

function makeEditable(element, block) {
  const words = element.matches(".text") ? element.firstElementChild : element.querySelector(".text > div");
  const target = block.type === "heading" ? words?.querySelector("h1, h2, h3") : words;
  if (!target) return;
  target.setAttribute("contenteditable", block.type === "heading" ? "plaintext-only" : "true");
  target.setAttribute("role", "textbox");
  target.setAttribute("aria-label", block.type === "heading" ? "Heading" : "Text");
  if (block.type === "text") target.setAttribute("aria-multiline", "true");
}

function decorateColumn(doc, element, place) {
  if (element.querySelector(".pr-block")) return;
  const add = doc.createElement("button");
  add.type = "button";
  add.className = "pr-add";
  add.textContent = "Add block";
  add.setAttribute("aria-label", `Add block to column ${Number(place.split("-")[1]) + 1}`);
  element.append(add);
}

// Change `old` into `next` with as few steps as possible, and leave `kept` alone.
function morph(old, next, kept) {
  if (old === kept) return;
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const before = [...old.childNodes], after = [...next.childNodes];
  for (const [index, wanted] of after.entries()) {
    const found = before[index];
    if (!found) old.append(old.ownerDocument.adoptNode(wanted));
    else if (found.nodeType !== wanted.nodeType || found.nodeName !== wanted.nodeName) found.replaceWith(old.ownerDocument.adoptNode(wanted));
    else if (found.nodeType === Node.ELEMENT_NODE) morph(found, wanted, kept);
    else if (found.data !== wanted.data) replaceWords(found, wanted.data);
  }
  for (const extra of before.slice(after.length)) extra.remove();
}

