// The kinds of blocks (src/postroom/composing/blocks/blocks.py): how each begins, and what can be set.

const align = { name: "align", label: "Align", kind: "choice", choices: { left: "Left", center: "Centre", right: "Right" } };
const line = (name, label, more = {}) => ({ name, label, kind: "line", ...more });
const url = (name, label, more = {}) => ({ name, label, kind: "url", ...more });
const condition = line("condition", "Show only if", { help: 'A rule such as language = "de". If empty, everyone sees the block.' });

export const KINDS = {
  heading: {
    label: "Heading", isText: true, make: () => ({ type: "heading", text: "Heading", level: 2 }),
    fields: [line("text", "Text"), { name: "level", label: "Size", kind: "choice", isNumber: true, choices: { 1: "Large", 2: "Medium", 3: "Small" }, otherwise: 2 }, { ...align, otherwise: "left" }],
    shown: (block) => block.text,
  },
  text: {
    label: "Text", isText: true, make: () => ({ type: "text", html: "<p>Write your text here.</p>" }),
    fields: [{ ...align, otherwise: "left" }], note: "Edit the text in the message itself.",
    shown: (block) => block.html.replace(/<[^>]*>/g, " "),
  },
  picture: {
    label: "Picture", make: () => ({ type: "picture", src: "", alt: "" }),
    fields: [{ name: "src", label: "Picture", kind: "picture" }, line("alt", "Alt text", { help: "For people who cannot see the picture." }), url("link", "Link"), { name: "width", label: "Width in pixels", kind: "number", least: 0, most: 600, help: "0 is as wide as possible.", otherwise: 0 }, { ...align, otherwise: "center" }],
    shown: (block) => block.alt || "",
  },
  button: {
    label: "Button", make: () => ({ type: "button", text: "Read more", link: "https://" }),
    fields: [line("text", "Text"), url("link", "Link"), { ...align, otherwise: "left" }, { name: "colour", label: "Colour", kind: "colour", help: "Without one, the list’s." }],
    shown: (block) => block.text,
  },
  "columns-2": { label: "2 columns", type: "columns", isWhole: true, make: () => ({ type: "columns", columns: [[], []] }) },
  "columns-3": { label: "3 columns", type: "columns", isWhole: true, make: () => ({ type: "columns", columns: [[], [], []] }) },
  divider: { label: "Divider", make: () => ({ type: "divider" }), fields: [] },
  spacer: { label: "Spacer", make: () => ({ type: "spacer", height: 24 }), fields: [{ name: "height", label: "Height in pixels", kind: "number", least: 4, most: 200, otherwise: 24 }] },
  quote: {
    label: "Quote", make: () => ({ type: "quote", text: "What someone said.", source: "" }),
    fields: [{ name: "text", label: "Text", kind: "lines" }, line("source", "Source")],
    shown: (block) => block.text,
  },
  social: {
    label: "Social links", make: () => ({ type: "social", links: [] }),
    fields: [{ name: "links", label: "Links", kind: "items", item: "link", most: 20, help: "Without any, the list’s.", make: () => ({ name: "", url: "https://" }), fields: [line("name", "Name"), url("url", "Link")] }, { ...align, otherwise: "center" }],
  },
  posts: {
    label: "List of posts", isWhole: true, make: () => ({ type: "posts", posts: [{ title: "First post", text: "What it is about." }] }),
    fields: [{ name: "posts", label: "Posts", kind: "items", item: "post", least: 1, most: 50, make: () => ({ title: "Another post" }), fields: [line("title", "Title"), { name: "text", label: "Text", kind: "lines" }, url("link", "Link"), { name: "picture", label: "Picture", kind: "picture", alt: "alt" }, line("alt", "Alt text")] }],
    shown: (block) => block.posts[0]?.title ?? "",
  },
  html: { label: "HTML", make: () => ({ type: "html", html: "<p>HTML</p>" }), fields: [{ name: "html", label: "HTML", kind: "code", help: "Scripts, styles and forms are removed." }] },
  footer: { label: "Footer", isWhole: true, make: () => ({ type: "footer", text: "" }), fields: [line("text", "Text", { help: "Above the list’s footer. A template with a footer shows its own instead." })] },
};

const COLUMNS = {
  label: "Columns", isWhole: true, fields: [{ name: "columns", label: "Columns", kind: "columns" }],
};

export function kindOf(block) {
  const kind = block.type === "columns" ? COLUMNS : KINDS[block.type] ?? { label: block.type, fields: [] };
  return { ...kind, fields: [...kind.fields, condition] };
}

// What a block is called for people who do not see it.
export function nameOf(block) {
  const kind = kindOf(block), words = (kind.shown?.(block) ?? "").trim().replace(/\s+/g, " ");
  const name = words ? `${kind.label}: ${words.slice(0, 60)}` : kind.label;
  return block.condition?.trim() ? `${name} (shown if ${block.condition.trim().slice(0, 60)})` : name;
}
