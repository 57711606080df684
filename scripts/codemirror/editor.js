// The parts of CodeMirror that the editor of messages uses, and how they look. It stands in a shadow
// root, where CodeMirror uses constructed style sheets: the content security policy forbids others.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { html } from "@codemirror/lang-html";
import { markdown } from "@codemirror/lang-markdown";
import { xml } from "@codemirror/lang-xml";
import { bracketMatching, defaultHighlightStyle, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

// Tags are not closed automatically: people who type the closing tag would get it twice.
const LANGUAGES = {
  html: () => html({ autoCloseTags: false }),
  markdown: () => markdown({ completeHTMLTags: false }),
  mjml: () => xml({ autoCloseTags: false }),
};

const theme = EditorView.theme({
  "&": { fontSize: "var(--text-13)", color: "var(--ink)", backgroundColor: "var(--surface)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--font-code)", lineHeight: "1.6", minHeight: "26rem", maxHeight: "70vh" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--ink-soft)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-tint)" },
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--ink)" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", border: "1px solid var(--line-strong)", color: "var(--ink)" },
  ".cm-textfield": { backgroundColor: "var(--surface)", color: "var(--ink)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--surface)", color: "var(--ink)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.tagName, tags.keyword, tags.angleBracket], color: "var(--plot-1)" },
  { tag: [tags.attributeName, tags.propertyName], color: "var(--plot-2)" },
  { tag: [tags.attributeValue, tags.string, tags.url], color: "var(--plot-3)" },
  { tag: [tags.comment, tags.processingInstruction, tags.contentSeparator], color: "var(--ink-soft)", fontStyle: "italic" },
  { tag: [tags.heading, tags.strong], fontWeight: "700" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: tags.link, color: "var(--plot-1)" },
  { tag: tags.monospace, color: "var(--plot-4)" },
]);

// Show an editor in `root`, a shadow root. `changed` is called with the text after each change.
export function createEditor({ root, text, format, label, described, changed }) {
  let isOwn = false;
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), lintGutter(), history(), drawSelection(), bracketMatching(), search(),
        highlightActiveLine(), EditorView.lineWrapping, theme,
        syntaxHighlighting(colours), syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
        (LANGUAGES[format] ?? LANGUAGES.html)(),
        keymap.of([...searchKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "true", ...(described && { "aria-description": described }) }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !isOwn) changed(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    view,
    focus: () => view.focus(),
    get text() { return view.state.doc.toString(); },
    set(next) {
      if (next === view.state.doc.toString()) return;
      isOwn = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } });
      isOwn = false;
    },
    // Put `before` and `after` around the selection, or insert text.
    wrap(before, after = "") {
      view.dispatch(view.state.changeByRange((range) => ({
        changes: [{ from: range.from, insert: before }, { from: range.to, insert: after }],
        range: range.empty
          ? range.map(view.state.changes({ from: range.from, insert: before }), 1)
          : range.map(view.state.changes([{ from: range.from, insert: before }, { from: range.to, insert: after }])),
      })), { scrollIntoView: true });
      view.focus();
    },
    // Put `prefix` at the beginning of every selected line; `prefix` gets the number of the line.
    prefix(prefix) {
      const { doc, selection } = view.state, changes = [];
      const first = doc.lineAt(selection.main.from).number, last = doc.lineAt(selection.main.to).number;
      for (let number = first; number <= last; number += 1) {
        changes.push({ from: doc.line(number).from, insert: prefix(number - first + 1) });
      }
      const set = view.state.changes(changes);
      view.dispatch({ changes: set, selection: selection.map(set, 1), scrollIntoView: true });
      view.focus();
    },
    // Mark lines: each problem has `line`, `column`, `text` and `level`.
    show(problems) {
      const { doc } = view.state;
      const found = problems.filter((each) => each.line >= 1).map(({ line, column, text: message, level }) => {
        const at = doc.line(Math.min(line, doc.lines));
        const from = Math.min(at.from + Math.max(0, column - 1), at.to);
        const severity = level === "error" ? "error" : level === "warning" ? "warning" : "info";
        return { from, to: at.to, severity, message };
      });
      view.dispatch(setDiagnostics(view.state, found.sort((a, b) => a.from - b.from)));
    },
    goTo(line, column) {
      const at = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines)));
      view.dispatch({ selection: { anchor: Math.min(at.from + Math.max(0, column - 1), at.to) }, scrollIntoView: true });
      view.focus();
    },
  };
}
