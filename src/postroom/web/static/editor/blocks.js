// The visual editor of a message made of blocks. The text field `body` always has the whole message as
// JSON; autosave.js saves it, and message_form.js shows its preview.
import { Canvas } from "./canvas.js";
import { listenToCanvas } from "./canvas_events.js";
import { KINDS, kindOf } from "./catalogue.js";
import { offerTemplates } from "./dialogs.js";
import { undoByKey } from "./keys.js";
import { drawIcon, offerMergeFields } from "./merge_fields.js";
import {
  blockAt, blocksIn, containerOf, History, indexOf, insertBlock, matchBlocks, moveBlock, parseDocument, placeIn,
  removeBlock, walk, writeDocument,
} from "./model.js";
import { showFields } from "./panel.js";
import { offerSheets } from "./sheets.js";
import { TextTools } from "./text_tools.js";

const RENDER_DELAY = 250;
const form = document.getElementById("message"), field = form.elements.body, template = form.elements.template;
const root = document.getElementById("blocks"), source = document.getElementById("source");
const part = (selector) => root.querySelector(selector);
const icons = root.dataset.icons;

class Editor {
  constructor(message) {
    this.message = message;
    this.history = new History(field.value);
    this.canvas = new Canvas(part("#canvas"));
    this.selected = "";
    this.inPanel = undefined; // the block whose fields the panel shows
    this.slots = [];
    this.insertAt = null; // where the dialog inserts
    this.isWriting = false;
    this.timer = 0;
    this.asked = 0;
    this.isForced = false; // the next document replaces all that is shown
    this.focusAt = ""; // the place that gets the focus with the next document
    this.fresh = null; // the block whose example text is replaced by typing
  }

  // — Changes —

  // Apply a change. `typing` names the field that is typed into: such changes are one step of undo.
  change(act, { select, typing = "", isShown = true, focus = false, delay = 0 } = {}) {
    const place = act(this.message);
    this.canvas.renumber(this.message);
    this.write(typing);
    if (select) this.select(place);
    if (isShown) this.render({ focus: focus ? this.selected : "", delay });
  }

  write(typing = "") {
    const text = writeDocument(this.message);
    this.history.add(text, typing);
    this.store(text);
  }

  store(text) {
    field.value = text;
    this.isWriting = true;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    this.isWriting = false;
    this.showHistory();
  }

  undo(isRedo = false) {
    const text = isRedo ? this.history.redo() : this.history.undo();
    const before = this.message;
    this.message = parseDocument(text);
    this.canvas.renumber(this.message, matchBlocks(before, this.message));
    this.canvas.showTexts(this.message);
    if (!blockAt(this.message, this.selected)) this.selected = "";
    this.store(text);
    this.showPanel();
    this.render({ isForced: true, focus: this.selected });
    this.say(isRedo ? "Redone" : "Undone");
  }

  // Something else has changed the text: what an earlier visit left unsaved.
  reload() {
    if (this.isWriting) return;
    const found = parseDocument(field.value);
    if (!found) { root.hidden = true; source.hidden = false; return; }
    this.message = found;
    this.canvas.renumber(found, new Map());
    this.history.add(field.value);
    this.select("");
    this.render({ isForced: true });
  }

  // — Blocks —

  insert(kind, container, index) {
    this.fresh = KINDS[kind].make();
    this.add(this.fresh, container, index);
  }

  add(block, container, index) {
    if (container === undefined) ({ container, index } = this.afterSelected(block));
    this.change((message) => insertBlock(message, container, index, block), { select: true, focus: true });
    this.say(`${kindOf(block).label} added`);
    return this.selected;
  }

  afterSelected(block) {
    const isWhole = kindOf(block).isWhole;
    if (!this.selected) return { container: "", index: this.message.blocks.length };
    if (isWhole || !this.selected.includes("-")) return { container: "", index: Number(this.selected.split("-")[0]) + 1 };
    return { container: containerOf(this.selected), index: indexOf(this.selected) + 1 };
  }

  // Move by one: past a neighbour, and from the end of a column to the next one.
  step(by) {
    const place = this.selected, block = blockAt(this.message, place);
    if (!block) return;
    const container = containerOf(place), all = blocksIn(this.message, container), index = indexOf(place) + by;
    if (index >= 0 && index < all.length) { this.moveTo(place, container, by > 0 ? index + 1 : index); return; }
    if (container === "") { this.say(by < 0 ? "Already first" : "Already last"); return; }
    const [outer, column] = container.split("-").map(Number), beside = column + by;
    if (this.message.blocks[outer].columns[beside]) {
      const next = `${outer}-${beside}`;
      this.moveTo(place, next, by > 0 ? 0 : blocksIn(this.message, next).length);
    } else {
      this.moveTo(place, "", by > 0 ? outer + 1 : outer);
    }
  }

  // Columns next to the selected block into which it could move: -1 above, 1 below, 0 for none.
  columnsBeside() {
    const block = blockAt(this.message, this.selected);
    if (!block || this.selected.includes("-") || kindOf(block).isWhole) return 0;
    return [1, -1].find((by) => this.message.blocks[Number(this.selected) + by]?.columns) ?? 0;
  }

  // Move into the columns above or below, as dragging does.
  stepInto(by) {
    const place = this.selected, outer = Number(place) + by;
    const columns = this.columnsBeside() && this.message.blocks[outer]?.columns;
    if (!columns) { this.say(by < 0 ? "No columns above" : "No columns below"); return; }
    const container = `${outer}-${by > 0 ? 0 : columns.length - 1}`;
    this.moveTo(place, container, by > 0 ? 0 : blocksIn(this.message, container).length);
    this.say("Moved into the columns");
  }

  moveTo(place, container, index) {
    this.change((message) => moveBlock(message, place, container, index), { select: true, focus: true });
    this.say(`Moved to position ${indexOf(this.selected) + 1}`);
  }

  duplicate() {
    const block = blockAt(this.message, this.selected);
    if (!block) return;
    this.add(structuredClone(block), containerOf(this.selected), indexOf(this.selected) + 1);
  }

  remove() {
    const place = this.selected, block = blockAt(this.message, place);
    if (!block) return;
    const container = containerOf(place), index = indexOf(place);
    this.change((message) => {
      removeBlock(message, place);
      const left = blocksIn(message, container).length;
      return left ? placeIn(container, Math.min(index, left - 1)) : container.split("-")[0];
    }, { select: true, focus: true });
    this.say(`${kindOf(block).label} deleted`);
  }

  update(place, change, typing) {
    this.change((message) => { Object.assign(blockAt(message, place), change); return place; },
      { typing: typing && `${place}/${typing}`, delay: typing ? RENDER_DELAY : 0 });
  }

  // — What is shown —

  select(place) {
    const block = blockAt(this.message, place);
    this.selected = block ? place : "";
    if (this.canvas.doc) this.canvas.select(this.selected);
    this.canvas.selected = this.selected;
    if (!block || block !== this.inPanel) this.showPanel();
    this.placeTools();
  }

  showPanel() {
    const into = part(".panel-fields"), block = blockAt(this.message, this.selected);
    this.inPanel = block;
    part("#panel-title").textContent = block ? kindOf(block).label : "Message";
    if (!block) { this.showSlots(into); return; }
    const place = this.selected;
    showFields(into, kindOf(block).fields, block, (change, typing, isShown) => {
      this.update(place, change, typing);
      if (isShown || "columns" in change) this.showPanel();
    });
    const { note } = kindOf(block);
    if (note) into.prepend(Object.assign(document.createElement("p"), { className: "soft", textContent: note }));
  }

  // The slots of the template are lines that belong to the message as a whole.
  showSlots(into) {
    const fields = this.slots.map(({ name, is_required: isNeeded, default: otherwise }) => ({
      name, kind: /(^|_)(link|url)$/.test(name) ? "url" : /picture$|image$/.test(name) ? "picture" : "line",
      label: name.replace(/_alt$/, " alt text").replace(/_/g, " ").replace(/^./, (letter) => letter.toUpperCase()),
      help: isNeeded ? "The template needs this." : otherwise ? `Otherwise “${otherwise}”.` : "Optional.",
    }));
    showFields(into, fields, this.message.slots ?? {}, (change, typing, isShown) => {
      const { alt, ...slots } = change, picture = Object.keys(slots)[0];
      if (alt && this.slots.some((each) => each.name === `${picture}_alt`)) slots[`${picture}_alt`] = alt;
      this.change((message) => { message.slots = { ...message.slots, ...slots }; }, { typing: typing && `slot/${typing}`, delay: typing ? RENDER_DELAY : 0 });
      if (isShown) this.showPanel();
    });
    const text = fields.length ? "What the template shows around your blocks." : "Select a block to change it.";
    into.prepend(Object.assign(document.createElement("p"), { className: "soft", textContent: text }));
  }

  // The field of the slot whose words these are, after a click on them.
  focusSlot(words) {
    const shown = ({ name, default: otherwise }) => [this.message.slots?.[name], otherwise, name.replace(/_/g, " ")];
    const isMeant = (text) => text?.trim().toLowerCase() === words.trim().toLowerCase();
    const slot = this.slots.find((each) => shown(each).some(isMeant));
    if (slot) part(`.panel-fields [data-property="${slot.name}"]`)?.focus();
  }

  async render({ isForced = false, focus = "", delay = 0 } = {}) {
    clearTimeout(this.timer);
    this.isForced ||= isForced || Boolean(focus);
    this.focusAt = focus || this.focusAt; // an earlier request may be overtaken by this one
    if (delay) { this.timer = setTimeout(() => this.render(), delay); return; }
    const mine = ++this.asked, data = new FormData(form), sent = field.value;
    this.canvas.typed.clear();
    for (const [name, value] of [...data]) if (typeof value !== "string") data.delete(name);
    const answer = await fetch("/messages/compile", { method: "POST", body: data, headers: { "HX-Request": "true" } }).catch(() => null);
    if (mine !== this.asked) return;
    if (!answer?.ok) { this.focusAt = ""; this.showProblems([{ level: "error", text: "The message cannot be shown at the moment. It is saved as soon as there is a connection." }]); return; }
    const { html, sites, slots, findings } = await answer.json();
    const isEmptied = html && mine === this.asked && await this.canvas.prepare(sites);
    if (mine !== this.asked) return;
    if (isEmptied && field.value !== sent) { await this.render({ focus }); return; } // what was typed is no longer on the canvas
    this.showProblems(findings);
    if (html) {
      this.canvas.show(html, this.message, { isForced: this.isForced });
      this.isForced = false;
    }
    const isEmpty = !this.message.blocks.length;
    root.classList.toggle("is-blank", isEmpty && !template.value);
    part(".canvas-empty").hidden = !isEmpty;
    if (JSON.stringify(slots) !== JSON.stringify(this.slots)) {
      this.slots = slots;
      if (!this.selected) this.showPanel();
    }
    if (this.focusAt && this.canvas.doc) {
      if (!document.querySelector("dialog[open]")) this.focusShown(); // an open dialog keeps the focus
      [this.focusAt, this.fresh] = ["", null];
    }
    this.placeTools();
  }

  focusShown() {
    this.canvas.focus(this.focusAt, true);
    if (blockAt(this.message, this.focusAt) === this.fresh) this.canvas.selectWords(this.focusAt);
  }

  showProblems(findings) {
    part("#block-problems").replaceChildren(...findings.map(({ level, text }) => Object.assign(document.createElement("li"), { className: level, textContent: text })));
  }

  showHistory() {
    part("[data-history=undo]").disabled = !this.history.canUndo;
    part("[data-history=redo]").disabled = !this.history.canRedo;
  }

  // The tools of the selected block stand above its right corner.
  placeTools() {
    const tools = part(".block-tools"), block = blockAt(this.message, this.selected);
    const at = block && this.canvas.doc && this.canvas.rectangle(this.selected);
    tools.hidden = !at;
    if (!at) return;
    part(".block-name").textContent = kindOf(block).label;
    part("[data-block=into]").hidden = !this.columnsBeside();
    const frame = this.canvas.frame;
    tools.style.top = `${frame.offsetTop + Math.max(0, at.top) - tools.offsetHeight - 4}px`;
    tools.style.left = `${Math.max(4, frame.offsetLeft + Math.min(at.right, frame.clientWidth) - tools.offsetWidth - 4)}px`;
  }

  say(text) { part("#block-status").textContent = text; }

  neighbour(by) {
    const places = [...walk(this.message)].map(([place]) => place);
    const next = places[places.indexOf(this.selected) + by];
    if (next) { this.select(next); this.canvas.focus(next); }
  }
}

// — The palette, and the dialog that `/` opens —

function offerKinds(list, choose) {
  for (const [kind, { label }] of Object.entries(KINDS)) {
    const item = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.className = "plain";
    button.dataset.kind = kind;
    button.append(label);
    drawIcon(button, icons, kind);
    button.addEventListener("click", () => choose(kind));
    item.append(button);
    list.append(item);
  }
}

function offerInsertDialog(editor) {
  const dialog = document.getElementById("insert-dialog"), filter = document.getElementById("insert-filter");
  const list = dialog.querySelector(".insert-list"), buttons = () => [...list.querySelectorAll("li:not([hidden]) button")];
  const insert = (kind) => { const at = editor.insertAt ?? {}; dialog.close(); editor.insert(kind, at.container, at.index); };
  offerKinds(list, insert);
  filter.addEventListener("input", () => {
    const query = filter.value.trim().toLowerCase();
    for (const item of list.children) {
      const isOut = editor.insertAt?.container && KINDS[item.firstChild.dataset.kind].isWhole;
      item.hidden = Boolean(isOut) || !item.textContent.toLowerCase().includes(query);
    }
  });
  dialog.addEventListener("keydown", (event) => {
    const all = buttons(), at = all.indexOf(document.activeElement);
    if (event.key === "ArrowDown") (all[at + 1] ?? all[0])?.focus();
    else if (event.key === "ArrowUp") (all[at - 1] ?? filter).focus();
    else if (event.key === "Enter" && event.target === filter) all[0]?.click();
    else return;
    event.preventDefault();
  });
  return (at = null) => {
    editor.insertAt = at;
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
    dialog.showModal();
    filter.focus();
  };
}

function start(message) {
  const editor = new Editor(message), openInsert = offerInsertDialog(editor);
  source.hidden = true;
  root.hidden = false;
  const sheets = offerSheets(root), tools = new TextTools(editor, part(".text-tools"), icons);
  offerKinds(part("#block-palette ul"), (kind) => { sheets.close(); editor.insert(kind); });
  editor.canvas.resized = () => editor.placeTools();
  listenToCanvas(editor, { tools, openInsert, root });
  const fields = offerMergeFields(form, (text) => tools.insert(text));
  tools.focused = () => fields.forget();
  offerTemplates(template);
  part("[data-insert]").addEventListener("click", (event) => editor.insert(event.target.dataset.insert));
  for (const button of root.querySelectorAll("[data-block]")) {
    drawIcon(button, icons, button.dataset.block);
    const act = { up: () => editor.step(-1), down: () => editor.step(1), into: () => editor.stepInto(editor.columnsBeside()), duplicate: () => editor.duplicate(), delete: () => editor.remove() }[button.dataset.block];
    if (act) button.addEventListener("click", act);
  }
  for (const button of root.querySelectorAll("[data-history]")) {
    drawIcon(button, icons, button.dataset.history);
    button.addEventListener("click", () => editor.undo(button.dataset.history === "redo"));
  }
  field.addEventListener("input", () => editor.reload());
  field.addEventListener("postroom:focus", () => editor.canvas.frame.focus());
  for (const each of [template, form.elements.list]) each?.addEventListener("input", () => editor.render());
  root.addEventListener("postroom:show", () => editor.showPanel());
  root.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches(".panel-fields input")) event.preventDefault(); // it would submit the form
    if (!event.target.matches("input, textarea") || event.target.closest(".panel-fields")) undoByKey(event, editor);
  });
  window.addEventListener("resize", () => editor.placeTools());
  editor.showPanel();
  editor.showHistory();
  editor.render();
}

const message = parseDocument(field.value);
if (message) start(message);
