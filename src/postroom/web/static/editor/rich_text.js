// What may be pasted into a text: words, paragraphs, lists, links and emphasis. Everything else of a
// web page or a word processor stays behind.

const KEPT = { B: "strong", STRONG: "strong", I: "em", EM: "em", U: "u", S: "s", P: "p", BR: "br", UL: "ul", OL: "ol", LI: "li", A: "a", BLOCKQUOTE: "blockquote" };
const AS_PARAGRAPHS = new Set(["H1", "H2", "H3", "H4", "H5", "H6", "DIV"]);
const DROPPED = new Set(["SCRIPT", "STYLE", "SVG", "HEAD", "TITLE", "META", "LINK", "IFRAME", "OBJECT", "TEMPLATE", "IMG"]);
const LINK = /^(https?:|mailto:|tel:)/i;

// `parsed` is the document that was pasted.
export function cleanHtml(parsed) {
  const into = document.createElement("div");
  copyChildren(parsed.body, into);
  return into.innerHTML;
}

function copyChildren(from, to) {
  for (const node of from.childNodes) {
    if (node.nodeType === Node.TEXT_NODE) to.append(node.data.replace(/\s+/g, " "));
    else if (node.nodeType === Node.ELEMENT_NODE && !DROPPED.has(node.tagName.toUpperCase())) copyElement(node, to);
  }
}

function copyElement(node, to) {
  const hasBlocks = node.querySelector("p, div, ul, ol, li, h1, h2, h3, table");
  const name = KEPT[node.tagName] ?? (AS_PARAGRAPHS.has(node.tagName) && !hasBlocks ? "p" : "");
  if (!name || (name === "a" && !LINK.test(node.getAttribute("href") ?? ""))) { copyChildren(node, to); return; }
  const copy = document.createElement(name);
  if (name === "a") copy.setAttribute("href", node.getAttribute("href"));
  copyChildren(node, copy);
  to.append(copy);
}

export function textAsHtml(text) {
  const into = document.createElement("div");
  for (const part of text.trim().split(/\n\s*\n/)) {
    const paragraph = document.createElement("p");
    paragraph.textContent = part;
    paragraph.innerHTML = paragraph.innerHTML.replace(/\n/g, "<br>");
    into.append(paragraph);
  }
  return into.innerHTML;
}

// An address as people type it.
export function asLink(text) {
  const typed = text.trim();
  if (!typed || LINK.test(typed) || typed.startsWith("{{")) return typed;
  return /^[^\s@/]+@[^\s@/]+\.[^\s@/]+$/.test(typed) ? `mailto:${typed}` : `https://${typed}`;
}
