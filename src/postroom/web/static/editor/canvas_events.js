// What happens on the canvas: selecting, typing, keys, pasting, dragging and dropping.
import { KINDS, kindOf } from "./catalogue.js";
import { selectionIn } from "./canvas_text.js";
import { picturesIn, uploadPicture } from "./dialogs.js";
import { undoByKey } from "./keys.js";
import { blockAt, blocksIn } from "./model.js";
import { cleanHtml, textAsHtml } from "./rich_text.js";

const placeAt = (target) => target.closest?.("[data-place]")?.dataset.place ?? "";
const editableAt = (target) => target.closest?.("[contenteditable]");

export function listenToCanvas(editor, { tools, openInsert, root }) {
  const canvas = editor.canvas;
  let dragged = null; // { kind } from the palette, or { place } of a block

  canvas.attach = (doc) => {
    doc.execCommand("defaultParagraphSeparator", false, "p");
    doc.addEventListener("click", (event) => {
      event.preventDefault(); // links lead nowhere here
      const add = event.target.closest?.(".pr-add");
      if (add) { openInsert({ container: canvas.containerAt(add.closest(".pr-column")), index: 0 }); return; }
      const place = placeAt(event.target);
      editor.select(place);
      if (!place) editor.focusSlot(event.target.textContent);
    });
    doc.addEventListener("focusin", (event) => {
      const place = placeAt(event.target);
      if (place) editor.select(place);
      if (editableAt(event.target)) tools.enter(place);
    });
    doc.addEventListener("selectionchange", () => { if (editableAt(doc.activeElement ?? doc.body)) tools.keep(); });
    doc.addEventListener("input", (event) => typed(event.target));
    doc.addEventListener("keydown", pressed);
    doc.addEventListener("paste", pasted);
    doc.addEventListener("submit", (event) => event.preventDefault());
    doc.addEventListener("dragover", (event) => {
      if (!dragged && !event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      canvas.markDrop(canvas.dropPlace(event.clientX, event.clientY, fitsColumn()));
    });
    doc.addEventListener("dragleave", (event) => { if (!event.relatedTarget) canvas.clearDrop(); });
    doc.addEventListener("drop", dropped);
  };

  // After replacing something elsewhere, htmx gives the focus back to the frame, not to the text in it.
  let writing = null;
  document.addEventListener("htmx:before:swap", () => {
    const editable = canvas.doc?.hasFocus() && editableAt(canvas.doc.activeElement);
    writing = editable ? [placeAt(editable), selectionIn(editable)] : null;
  });
  document.addEventListener("htmx:after:swap", () => { if (writing) canvas.typeOn(...writing); });

  function typed(target) {
    const editable = editableAt(target), place = placeAt(target), block = blockAt(editor.message, place);
    if (!editable || !block || !kindOf(block).isText) return;
    canvas.typed.add(block);
    const change = block.type === "heading" ? { text: editable.textContent } : { html: editable.innerHTML };
    editor.change((message) => { Object.assign(blockAt(message, place), change); }, { typing: `${place}/typed`, isShown: false });
    canvas.remember(block, editable);
    const field = block.type === "heading" && root.querySelector(".panel-fields [data-property=text]");
    if (field) field.value = editable.textContent;
    editor.placeTools();
  }

  function pressed(event) {
    if (undoByKey(event, editor)) return;
    const act = actionOf(event);
    if (!act) return;
    event.preventDefault();
    act();
  }

  // What a key does here; nothing if it is the browser's.
  function actionOf(event) {
    const editable = editableAt(event.target), place = placeAt(event.target), key = event.key.toLowerCase();
    if (event.altKey && event.shiftKey) return { arrowup: () => editor.stepInto(-1), arrowdown: () => editor.stepInto(1) }[key];
    if (event.altKey) return { arrowup: () => editor.step(-1), arrowdown: () => editor.step(1) }[key];
    if (event.ctrlKey || event.metaKey) {
      if (key === "d" && place) return () => editor.duplicate();
      return key === "k" && editable ? () => tools.link() : undefined;
    }
    if (key === "/" && !editable?.textContent.trim()) return () => openInsert();
    if (editable) {
      const isHeading = editable.getAttribute("contenteditable") !== "true";
      return { escape: () => canvas.focus(place), enter: isHeading && (() => editor.insert("text")) }[key];
    }
    return place ? {
      delete: () => editor.remove(),
      backspace: () => editor.remove(),
      arrowup: () => editor.neighbour(-1),
      arrowdown: () => editor.neighbour(1),
      escape: () => editor.select(""),
      enter: () => (canvas.editable(place) ? canvas.focus(place, true) : root.querySelector(".panel-fields :is(input, textarea, button)")?.focus()),
    }[key] : undefined;
  }

  function pasted(event) {
    const files = picturesIn(event.clipboardData);
    if (files.length) { event.preventDefault(); addPictures(files); return; }
    const editable = editableAt(event.target);
    if (editable?.getAttribute("contenteditable") !== "true") return;
    event.preventDefault();
    const html = event.clipboardData.getData("text/html"), text = event.clipboardData.getData("text/plain");
    if (html) tools.insertHtml(cleanHtml(canvas.parse(html)));
    else if (text.includes("\n")) tools.insertHtml(textAsHtml(text));
    else canvas.doc.execCommand("insertText", false, text);
  }

  // Upload pictures and add a block for each; alt texts are asked for in its properties.
  async function addPictures(files, at = {}) {
    for (const file of files) {
      editor.say(`Uploading ${file.name}`);
      try {
        const { url, alt } = await uploadPicture(file);
        editor.add({ ...KINDS.picture.make(), src: url, alt }, at.container, at.index);
        root.querySelector(".panel-fields [data-property=alt]")?.focus();
      } catch (problem) {
        editor.showProblems([{ level: "error", text: problem.message }]);
      }
    }
  }

  function fitsColumn() {
    if (!dragged) return true;
    return dragged.kind ? !KINDS[dragged.kind].isWhole : !kindOf(blockAt(editor.message, dragged.place)).isWhole;
  }

  function dropped(event) {
    const target = canvas.dropPlace(event.clientX, event.clientY, fitsColumn());
    canvas.clearDrop();
    const files = picturesIn(event.dataTransfer);
    if (!dragged && !files.length) return;
    event.preventDefault();
    if (files.length) addPictures(files, target);
    else if (dragged.kind) editor.insert(dragged.kind, target.container, target.index);
    else if (blocksIn(editor.message, target.container)) editor.moveTo(dragged.place, target.container, target.index);
    dragged = null;
  }

  root.addEventListener("dragstart", (event) => {
    const kind = event.target.closest?.("[data-kind]")?.dataset.kind, isBlock = event.target.closest?.("[data-block=drag]");
    if (!kind && !isBlock) return;
    dragged = kind ? { kind } : { place: editor.selected };
    event.dataTransfer.setData("text/plain", "");
    event.dataTransfer.effectAllowed = kind ? "copy" : "move";
  });
  root.addEventListener("dragend", () => { dragged = null; if (canvas.doc) canvas.clearDrop(); });
  for (const button of root.querySelectorAll("#block-palette [data-kind]")) button.draggable = true;
}
