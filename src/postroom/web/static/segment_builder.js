"use strict";
// The builder of a segment: rows of field, comparison and value, in groups. The rule's text is what
// is saved: the builder writes it, and reads it again when someone types.
(() => {
  const builder = document.getElementById("builder");
  const text = document.getElementById("rule");
  const form = document.getElementById("segment-form");
  const fields = new Map(JSON.parse(builder.dataset.fields).map((each) => [each.name, each]));
  const LABELS = {
    "=": "is", "!=": "is not", "<": "is less than", "<=": "is at most", ">": "is more than",
    ">=": "is at least", "contains": "contains", "starts with": "starts with",
    "ends with": "ends with", "before": "is before", "after": "is after", "in": "is one of",
    "not in": "is none of", "within": "is in the last", "is empty": "is empty",
    "is not empty": "is not empty", "received": "was received",
    "opened": "was opened", "clicked": "was clicked", "clicked link": "was clicked, containing",
    "clicked within": "clicked in the last", "opened within": "opened in the last",
    "inactive for": "inactive for",
  };
  const NEGATED = {
    "contains": "does not contain", "starts with": "does not start with",
    "ends with": "does not end with", "within": "is not in the last",
    "received": "was not received", "opened": "was not opened", "clicked": "was not clicked",
    "clicked link": "was not clicked, containing", "clicked within": "not clicked in the last",
    "opened within": "not opened in the last",
  };
  const GROUPS = { "all": "all", "any": "any", "not any": "none", "not all": "not all" };
  const WITHOUT_VALUE = ["is empty", "is not empty"];
  const OF_MESSAGES = ["received", "opened", "clicked"];
  const ACTIVITY = ["clicked within", "opened within", "inactive for"];
  const PERIODS = ["within", ...ACTIVITY];
  const SEVERAL = ["in", "not in"];
  let tree = { kind: "group", all: true, parts: [] };

  // -- the text of a rule --------------------------------------------------------------------------

  const quoted = (value) => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  const isText = (type) => ["text", "choice", "choices"].includes(type);

  function rowText(row) {
    const type = fields.get(row.field)?.type ?? "text";
    const isTyped = isText(type) && ![...OF_MESSAGES, ...PERIODS].includes(row.operator);
    // An empty text counts only if the rule has one: an input that is not filled in yet is no value.
    const values = (isTyped ? row.values : row.values.map((each) => each.trim())).filter((each) => each || (isTyped && row.hasEmpty));
    if (!values.length && !WITHOUT_VALUE.includes(row.operator)) return "";
    const written = values.map((each) => (isText(type) ? quoted(each) : each));
    const not = row.negated ? "not " : "";
    if (WITHOUT_VALUE.includes(row.operator)) return `${not}${row.field} ${row.operator}`;
    if (OF_MESSAGES.includes(row.operator)) return `${not}${row.operator} ${values[0]}`;
    if (row.operator === "clicked link") return `${not}clicked ${quoted(values[0])}`;
    if (ACTIVITY.includes(row.operator)) return `${not}${row.operator} ${values[0]} ${row.unit || "days"}`;
    if (row.operator === "within") return `${not}${row.field} within ${values[0]} ${row.unit || "days"}`;
    if (SEVERAL.includes(row.operator)) return `${not}${row.field} ${row.operator} (${written.join(", ")})`;
    return `${not}${row.field} ${row.operator} ${written[0]}`;
  }

  function groupText(group, isRoot) {
    const parts = group.parts.map((each) => (each.kind === "row" ? rowText(each) : groupText(each, false))).filter(Boolean);
    if (!parts.length) return "";
    const joined = parts.join(group.all ? " and " : " or ");
    if (group.negated) return `not (${joined})`;
    return isRoot || parts.length === 1 ? joined : `(${joined})`;
  }

  // -- the form ------------------------------------------------------------------------------------

  function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  function choice(label, options, value, onChange) {
    const select = element("select", { ariaLabel: label });
    for (const [key, shown] of options) select.append(element("option", { value: key, textContent: shown, selected: key === value }));
    select.addEventListener("change", () => onChange(select.value));
    return select;
  }

  function button(label, onClick, properties = {}) {
    const made = element("button", { type: "button", className: "quiet", textContent: label, ...properties });
    made.addEventListener("click", onClick);
    return made;
  }

  function valueInputs(row) {
    const field = fields.get(row.field);
    if (WITHOUT_VALUE.includes(row.operator)) return [];
    // An input that is left empty drops its condition, so it must be filled in before saving.
    const required = !row.hasEmpty;
    const setFrom = (input, values) => { input.required = true; setAll(values); };
    const setAll = (values) => { Object.assign(row, { values, hasEmpty: false }); write(); };
    const set = (value) => setAll([value]);
    if (PERIODS.includes(row.operator)) {
      const number = element("input", { type: "number", min: 1, max: 100000, required: true, value: row.values[0] ?? "", ariaLabel: "Number" });
      number.addEventListener("input", () => set(number.value));
      const units = ["days", "weeks", "months", "years"].map((each) => [each, each]);
      return [number, choice("Unit", units, row.unit || "days", (unit) => { row.unit = unit; write(); })];
    }
    if (SEVERAL.includes(row.operator)) {
      const area = element("textarea", { rows: 2, required, value: row.values.join("\n"), ariaLabel: "Values, one per line", placeholder: "One per line" });
      area.addEventListener("input", () => setFrom(area, area.value.split("\n")));
      return [area];
    }
    if (OF_MESSAGES.includes(row.operator) && field.messages.length) {
      if (!row.values.length) row.values = [field.messages[0][0]];
      const known = field.messages.some(([ref]) => ref === row.values[0]);
      const offered = known || !row.values[0] ? field.messages : [[row.values[0], row.values[0]], ...field.messages];
      return [choice("Message", offered, row.values[0], set)];
    }
    if (field?.type === "boolean") {
      if (!row.values.length) row.values = ["true"];
      return [choice("Value", [["true", "yes"], ["false", "no"]], row.values[0], set)];
    }
    if (field?.choices.length && !["starts with", "ends with"].includes(row.operator)) {
      const known = field.choices.find((each) => each.toLowerCase() === (row.values[0] ?? "").toLowerCase());
      if (known || !row.values.length) {
        row.values = [known ?? field.choices[0]];
        return [choice("Value", field.choices.map((each) => [each, each]), row.values[0], set)];
      }
    }
    const kinds = { integer: "number", number: "number", date: "date" };
    const input = element("input", { type: kinds[field?.type] ?? "text", required, value: row.values[0] ?? "", ariaLabel: "Value", autocomplete: "off" });
    if (field?.type === "number") input.step = "any";
    input.addEventListener("input", () => setFrom(input, [input.value]));
    return [input];
  }

  function rowOf(row, group) {
    const names = [...fields.values()].map((each) => [each.name, each.label]);
    const field = choice("Field", names, row.field, (name) => {
      const isSame = fields.get(name).type === fields.get(row.field)?.type;
      row.field = name;
      if (!fields.get(name).operators.includes(row.operator)) Object.assign(row, { operator: fields.get(name).operators[0], negated: false });
      if (!isSame) Object.assign(row, { values: [], hasEmpty: false });
      redraw(".builder-row", row);
    });
    const operators = (fields.get(row.field)?.operators ?? []).flatMap((each) => {
      const negated = NEGATED[each] ?? (row.negated && each === row.operator ? `not: ${LABELS[each]}` : "");
      return negated ? [[each, LABELS[each]], [`not ${each}`, negated]] : [[each, LABELS[each]]];
    });
    const isNegation = (key) => key.startsWith("not ") && key !== "not in";
    const operator = choice("Comparison", operators, row.negated ? `not ${row.operator}` : row.operator, (key) => {
      const before = row.operator;
      row.negated = isNegation(key);
      row.operator = row.negated ? key.slice(4) : key;
      if (PERIODS.includes(before) !== PERIODS.includes(row.operator)) row.values = [];
      if (!SEVERAL.includes(row.operator)) row.values = row.values.slice(0, 1);
      redraw(".builder-row", row, 1);
    });
    const remove = button("Remove", () => {
      group.parts = group.parts.filter((each) => each !== row);
      redraw();
    }, { ariaLabel: `Remove the condition on ${fields.get(row.field)?.label ?? row.field}` });
    const made = element("div", { className: "builder-row" }, field, operator, ...valueInputs(row), remove);
    made.row = row;
    return made;
  }

  function groupOf(group, parent) {
    const key = `${group.negated ? "not " : ""}${group.all ? "all" : "any"}`;
    const kind = choice("How the conditions are combined", Object.entries(GROUPS), key, (value) => {
      group.negated = value.startsWith("not ");
      group.all = value.endsWith("all");
      write();
    });
    const first = () => ({ kind: "row", field: fields.keys().next().value, operator: "contains", values: [] });
    const actions = element("div", { className: "builder-actions" },
      button("Add condition", () => {
        const row = first();
        group.parts.push(row);
        redraw(".builder-row", row);
      }),
      button("Add group", () => {
        const row = first();
        group.parts.push({ kind: "group", all: !group.all, parts: [row] });
        redraw(".builder-row", row);
      }));
    if (parent) {
      actions.append(button("Remove group", () => {
        parent.parts = parent.parts.filter((each) => each !== group);
        redraw();
      }));
    }
    const legend = element("p", { className: "builder-kind" }, "Match ", kind, " of these conditions");
    const parts = group.parts.map((each) => (each.kind === "row" ? rowOf(each, group) : groupOf(each, group)));
    const made = element("div", { className: "builder-group", role: "group", ariaLabel: parent ? "Group of conditions" : "Conditions" }, legend, ...parts, actions);
    return made;
  }

  // Draw everything again; the focus goes to the control of a row, or stays in the builder.
  function redraw(selector = "", row = null, control = 0) {
    builder.replaceChildren(groupOf(tree, null));
    const found = selector && [...builder.querySelectorAll(selector)].find((each) => each.row === row);
    if (found) found.children[control].focus();
    else builder.querySelector(".builder-actions:last-child button")?.focus();
    write();
  }

  // -- text and form in step -----------------------------------------------------------------------

  let waiting = 0;
  function changed() {
    clearTimeout(waiting);
    waiting = setTimeout(() => form.dispatchEvent(new CustomEvent("rule-changed")), 300);
  }

  function write() {
    const written = groupText(tree, true);
    if (written === text.value) return;
    text.value = written;
    changed();
  }

  function read(given) {
    tree = given;
    if (!tree.parts.length) tree.parts.push({ kind: "row", field: fields.keys().next().value, operator: "contains", values: [] });
    const complete = (group) => group.parts.forEach((each) => {
      if (each.kind !== "row") return complete(each);
      each.values ??= [];
      each.hasEmpty = each.values.includes("");
    });
    complete(tree);
    builder.replaceChildren(groupOf(tree, null));
    builder.hidden = false;
  }

  let typing = 0;
  text.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(async () => {
      changed();
      const typed = text.value, body = new URLSearchParams({ rule: typed });
      const headers = { "X-CSRF-Token": document.querySelector("meta[name=csrf-token]").content };
      const answer = await fetch(builder.dataset.parse, { method: "POST", body, headers });
      const given = answer.ok ? await answer.json() : null;
      if (text.value !== typed) return;
      // A rule with a mistake has no rows: a click in those of an earlier one would replace it.
      if (given) return read(given);
      builder.hidden = true;
      builder.replaceChildren(); // what cannot be seen must not be required
    }, 400);
  });

  if (builder.dataset.tree) read(JSON.parse(builder.dataset.tree));
})();
