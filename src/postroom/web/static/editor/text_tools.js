// Bold, italic, links, lists and colour for the text that the cursor is in.
import { askLink } from "./dialogs.js";
import { drawIcon } from "./merge_fields.js";

const ICONS = { bold: "bold", italic: "italic", createLink: "link", insertUnorderedList: "bullets", insertOrderedList: "numbers" };

export class TextTools {
  constructor(editor, bar, icons) {
    this.editor = editor;
    this.bar = bar;
    this.place = "";   // the block that the cursor is or was in
    this.range = null;
    this.focused = () => {};
    this.buttons = [...bar.querySelectorAll("[data-command]")];
    for (const button of this.buttons) {
      drawIcon(button, icons, ICONS[button.dataset.command]);
      button.addEventListener("mousedown", (event) => event.preventDefault()); // the text keeps its selection
      button.addEventListener("click", () => this.run(button.dataset.command));
    }
    const colour = bar.querySelector("#text-colour");
    colour.addEventListener("change", () => this.run("foreColor", colour.value));
    this.show();
  }

  get doc() { return this.editor.canvas.doc; }
  get target() { return this.doc && this.place !== "" ? this.editor.canvas.editable(this.place) : null; }

  // The cursor is in the text of this block.
  enter(place) {
    this.place = place;
    this.focused();
    this.keep();
  }

  keep() {
    const selection = this.doc.getSelection(), target = this.target;
    if (target && selection.rangeCount && target.contains(selection.anchorNode)) this.range = selection.getRangeAt(0).cloneRange();
    this.show();
  }

  restore() {
    const target = this.target;
    if (!target) return false;
    this.editor.canvas.frame.contentWindow.focus();
    target.focus();
    const selection = this.doc.getSelection();
    if (this.range && target.contains(this.range.startContainer)) {
      selection.removeAllRanges();
      selection.addRange(this.range);
    } else {
      selection.selectAllChildren(target);
      selection.collapseToEnd();
    }
    return true;
  }

  get isRich() { return this.target?.getAttribute("contenteditable") === "true"; }

  async run(command, value = null) {
    if (!this.isRich) return;
    if (command === "createLink") { await this.link(); return; }
    this.restore();
    this.doc.execCommand("styleWithCSS", false, command === "foreColor");
    this.doc.execCommand(command, false, value);
    if (command.endsWith("List")) this.unwrapLists();
    this.keep();
  }

  // Chromium leaves a list in the paragraph that it was made of, where HTML allows none.
  unwrapLists() {
    const selection = this.doc.getSelection(), { anchorNode, anchorOffset, focusNode, focusOffset } = selection;
    const wrapped = [...this.target.querySelectorAll("p > ul, p > ol")];
    for (const list of wrapped) list.parentElement.replaceWith(...list.parentElement.childNodes);
    if (!wrapped.length) return;
    selection.setBaseAndExtent(anchorNode, anchorOffset, focusNode, focusOffset);
    this.target.dispatchEvent(new InputEvent("input", { bubbles: true }));
  }

  async link() {
    this.keep();
    const node = this.range?.startContainer, around = (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest?.("a");
    const link = await askLink(around?.getAttribute("href"));
    this.restore();
    if (link === null) return;
    const selection = this.doc.getSelection();
    if (around) { const range = this.doc.createRange(); range.selectNodeContents(around); selection.removeAllRanges(); selection.addRange(range); }
    if (!link) this.doc.execCommand("unlink");
    else if (selection.isCollapsed) this.insertHtml(Object.assign(document.createElement("a"), { href: link, textContent: link.replace(/^mailto:/, "") }).outerHTML);
    else this.doc.execCommand("createLink", false, link);
    this.keep();
  }

  insertHtml(html) { this.doc.execCommand("insertHTML", false, html); }

  // Insert words where the cursor was last.
  insert(text) {
    if (!this.restore()) return;
    this.doc.execCommand("insertText", false, text);
    this.keep();
  }

  show() {
    const isRich = this.isRich;
    for (const button of this.buttons) {
      button.disabled = !isRich;
      if (button.hasAttribute("aria-pressed")) button.setAttribute("aria-pressed", String(Boolean(isRich && this.doc.queryCommandState(button.dataset.command))));
    }
    this.bar.querySelector("#text-colour").disabled = !isRich;
  }
}
