// The properties of the selected block, or of the message if none is selected.
import { askPicture } from "./dialogs.js";
import { asLink } from "./rich_text.js";

let numbered = 0;

// Show fields for `values` in `into`. `changed` gets an object with what is new, and a name for typing.
export function showFields(into, fields, values, changed) {
  into.replaceChildren(...fields.map((field) => fieldFor(field, values, changed)).flat());
}

function fieldFor(field, values, changed) {
  const set = (value, isTyping = true) => changed({ [field.name]: value }, isTyping ? field.name : "");
  const value = values[field.name] ?? field.otherwise ?? "";
  switch (field.kind) {
    case "lines": case "code": {
      const area = element("textarea", { rows: field.kind === "code" ? 10 : 4, value, maxLength: field.kind === "code" ? 200000 : 1000 });
      if (field.kind === "code") [area.className, area.spellcheck] = ["code", false];
      area.addEventListener("input", () => set(field.kind === "code" ? area.value : area.value.replace(/\n+/g, " ")));
      return labelled(field, area);
    }
    case "number": return labelled(field, number(field, value, set));
    case "choice": return choice(field, value, set);
    case "colour": return colour(field, value, set);
    case "picture": return picture(field, values, changed);
    case "items": return items(field, values[field.name] ?? [], set);
    case "columns": return columns(field, values[field.name], set);
    default: {
      const input = element("input", { type: "text", value, maxLength: field.kind === "url" ? 4000 : 1000 });
      if (field.kind === "url") {
        input.inputMode = "url";
        input.spellcheck = false;
        input.addEventListener("change", () => { if (input.value !== asLink(input.value)) { input.value = asLink(input.value); set(input.value); } });
      }
      input.addEventListener("input", () => set(input.value));
      return labelled(field, input);
    }
  }
}

function labelled(field, input) {
  input.id ||= `property-${++numbered}`;
  input.dataset.property = field.name;
  const label = element("label", { htmlFor: input.id, textContent: field.label }), parts = [label, input];
  if (field.help) {
    const help = element("small", { id: `${input.id}-help`, textContent: field.help });
    input.setAttribute("aria-describedby", help.id);
    parts.push(help);
  }
  return parts;
}

function number(field, value, set) {
  const input = element("input", { type: "number", min: field.least, max: field.most, value: String(value) });
  input.addEventListener("input", () => {
    const typed = Math.round(Number(input.value));
    if (input.value !== "" && input.validity.valid) set(typed);
  });
  input.addEventListener("change", () => {
    const within = Math.min(field.most, Math.max(field.least, Math.round(Number(input.value)) || field.least));
    if (String(within) !== input.value) { input.value = String(within); set(within); }
  });
  return input;
}

function choice(field, value, set) {
  const name = `property-${++numbered}`;
  const group = element("fieldset", { className: "segments" });
  group.append(element("legend", { textContent: field.label }));
  for (const [each, text] of Object.entries(field.choices)) {
    const input = element("input", { type: "radio", id: `${name}-${each}`, value: each, checked: each === String(value) });
    input.name = name;
    input.setAttribute("form", "none"); // not a field of the message
    const label = element("label", { htmlFor: input.id });
    input.addEventListener("change", () => set(field.isNumber ? Number(each) : each, false));
    label.append(input, ` ${text}`);
    group.append(label);
  }
  return [group];
}

function colour(field, value, set) {
  const input = element("input", { type: "color", value: value || "#27509b" });
  const clear = element("button", { type: "button", className: "quiet", textContent: "Use the list’s", hidden: !value });
  input.addEventListener("input", () => { clear.hidden = false; set(input.value); });
  clear.addEventListener("click", () => { clear.hidden = true; set("", false); input.focus(); });
  const row = element("div", { className: "colour-row" }), [label, , help] = labelled(field, input);
  row.append(input, clear);
  return [label, row, help];
}

function picture(field, values, changed) {
  const address = element("input", { type: "text", value: values[field.name] ?? "", maxLength: 4000, spellcheck: false });
  const choose = element("button", { type: "button", textContent: values[field.name] ? "Change picture…" : "Choose picture…" });
  choose.dataset.choose = field.name;
  address.addEventListener("input", () => changed({ [field.name]: address.value.trim() }, field.name));
  choose.addEventListener("click", async () => {
    const found = await askPicture({ alt: values.alt });
    if (found) changed({ [field.name]: found.url, alt: found.alt }, "", true);
  });
  return [choose, ...labelled({ ...field, label: "Address of the picture" }, address)];
}

function items(field, list, set) {
  const group = element("fieldset", { className: "items" });
  group.append(element("legend", { textContent: field.label }));
  if (field.help) group.append(element("small", { textContent: field.help }));
  list.forEach((item, index) => {
    const part = element("fieldset", { className: "item" }), inner = element("div", {});
    part.append(element("legend", { textContent: `${field.item[0].toUpperCase()}${field.item.slice(1)} ${index + 1}` }), inner);
    showFields(inner, field.fields, item, (change, typing, isShown) => {
      set(list.map((each, at) => (at === index ? { ...each, ...change } : each)), Boolean(typing) && `${index}-${typing}`);
      Object.assign(item, change);
      if (isShown) group.dispatchEvent(new Event("postroom:show", { bubbles: true }));
    });
    if (list.length > (field.least ?? 0)) {
      const remove = element("button", { type: "button", className: "quiet", textContent: `Remove ${field.item} ${index + 1}` });
      remove.addEventListener("click", () => { set(list.filter((_, at) => at !== index), false); group.dispatchEvent(new Event("postroom:show", { bubbles: true })); });
      part.append(remove);
    }
    group.append(part);
  });
  if (list.length < field.most) {
    const add = element("button", { type: "button", className: "quiet", textContent: `Add ${field.item}` });
    add.addEventListener("click", () => { set([...list, field.make()], false); group.dispatchEvent(new Event("postroom:show", { bubbles: true })); });
    group.append(add);
  }
  return [group];
}

// Two or three columns. The blocks of a column that goes away move to the one before.
function columns(field, list, set) {
  return choice({ ...field, label: "Number of columns", choices: { 2: "2", 3: "3" } }, list.length, (count) => {
    if (Number(count) === 3) set([...list, []], false);
    else set([list[0], [...list[1], ...list[2]]], false);
  });
}

function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}
