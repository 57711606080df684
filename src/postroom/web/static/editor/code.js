// Markdown, HTML and MJML: a code editor in place of the text field, a toolbar, and mistakes at their
// lines. Without this script, the text field stays.
import { askLink, askPicture, offerTemplates, picturesIn, uploadPicture } from "./dialogs.js";
import { drawIcon, offerMergeFields } from "./merge_fields.js";

const CHECK_DELAY = 600;
const form = document.getElementById("message"), tools = document.getElementById("code-tools");
const field = form.elements.body, format = form.elements.format.value;
const host = document.getElementById("code"), problems = document.getElementById("code-problems");
const LABEL = document.querySelector("label[for=body]");

const MARKDOWN = {
  heading: (code) => code.prefix(() => "## "),
  bold: (code) => code.wrap("**", "**"),
  italic: (code) => code.wrap("*", "*"),
  bullets: (code) => code.prefix(() => "- "),
  numbers: (code) => code.prefix((number) => `${number}. `),
  quote: (code) => code.prefix(() => "> "),
  link: async (code) => {
    const link = await askLink("");
    if (link) code.wrap("[", `](${link})`);
  },
};
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/"/g, "&quot;").replace(/</g, "&lt;");
const PICTURES = {
  markdown: ({ url, alt }) => `![${alt.replace(/[[\]]/g, "")}](${url})`,
  html: ({ url, alt, width }) => `<img src="${url}" alt="${escaped(alt)}" width="${Math.min(width || 600, 600)}">`,
  mjml: ({ url, alt }) => `<mj-image src="${url}" alt="${escaped(alt)}" />`,
};

let code = null, timer = 0, asked = 0;

async function start() {
  const { createEditor } = await import(host.dataset.codemirror);
  host.hidden = tools.hidden = false;
  code = createEditor({
    root: host.attachShadow({ mode: "open" }),
    text: field.value, format,
    label: LABEL.textContent.trim(),
    changed(text) {
      field.value = text;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    },
  });
  document.getElementById("source").classList.add("replaced");
  field.tabIndex = -1;
  field.setAttribute("aria-hidden", "true");
  LABEL.removeAttribute("for");
  LABEL.addEventListener("click", () => code.focus());
  field.addEventListener("postroom:focus", () => code.focus());
  host.addEventListener("focusin", () => fields.forget());
  check();
}

// Someone else has changed the text: a file, or what an earlier visit left unsaved.
field.addEventListener("input", () => {
  code?.set(field.value);
  clearTimeout(timer);
  timer = setTimeout(check, CHECK_DELAY);
});
form.elements.template?.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(check, CHECK_DELAY); });

async function check() {
  const mine = ++asked, data = new FormData(form);
  for (const [name, value] of [...data]) if (typeof value !== "string") data.delete(name);
  const answer = field.value.trim()
    ? await fetch("/messages/compile", { method: "POST", body: data, headers: { "HX-Request": "true" } }).catch(() => null)
    : null;
  if (mine !== asked) return;
  const found = answer?.ok ? (await answer.json()).findings : [];
  code.show(found);
  problems.replaceChildren(...found.map((each) => {
    const item = document.createElement("li"), button = document.createElement("button");
    item.className = each.level;
    button.type = "button";
    button.className = "plain";
    button.textContent = each.line ? `Line ${each.line}: ${each.text}` : each.text;
    button.addEventListener("click", () => code.goTo(each.line || 1, each.column || 1));
    item.append(button);
    return item;
  }));
}

const insert = (text) => code.wrap(text);
const fields = offerMergeFields(form, insert);
if (form.elements.template?.matches("select")) offerTemplates(form.elements.template);

for (const button of tools.querySelectorAll("[data-markdown]")) {
  drawIcon(button, tools.dataset.icons, button.dataset.markdown);
  button.addEventListener("click", () => MARKDOWN[button.dataset.markdown](code));
}
const picture = tools.querySelector("[data-picture]");
drawIcon(picture, tools.dataset.icons, "picture");
picture.addEventListener("click", async () => {
  const found = await askPicture();
  if (found) insert(PICTURES[format](found));
});
async function upload(event, files) {
  event.preventDefault();
  event.stopPropagation();
  for (const file of files) {
    try {
      insert(PICTURES[format](await uploadPicture(file)));
    } catch (problem) {
      problems.replaceChildren(Object.assign(document.createElement("li"), { className: "error", textContent: problem.message }));
    }
  }
}
for (const [type, source] of [["paste", "clipboardData"], ["drop", "dataTransfer"]]) {
  host.addEventListener(type, (event) => {
    const files = picturesIn(event[source]);
    if (files.length) upload(event, files);
  }, true);
}

start().catch(() => { host.hidden = tools.hidden = true; });
