// The menu of merge fields: inserts one where the cursor was last, in the subject as in the message.

// `insertInto` gets the text of the field if the cursor was last in the message itself.
export function offerMergeFields(form, insertInto) {
  let last = null;
  form.addEventListener("focusin", (event) => {
    const isText = event.target.matches("textarea, input:is([type=text], :not([type]))");
    const takesFields = event.target.closest(".panel-fields") || ["subject", "preheader", "text"].includes(event.target.name);
    if (isText && takesFields) last = event.target;
  });
  for (const menu of form.querySelectorAll(".merge-fields")) {
    menu.addEventListener("click", (event) => {
      const button = event.target.closest("[data-merge-field]");
      if (!button) return;
      menu.open = false;
      const text = button.dataset.mergeField;
      if (!last?.isConnected) { insertInto(text); return; }
      last.setRangeText(text, last.selectionStart, last.selectionEnd, "end");
      last.dispatchEvent(new Event("input", { bubbles: true }));
      last.focus();
    });
  }
  return { forget() { last = null; } };
}

export function drawIcon(button, sheet, name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), use = document.createElementNS(svg.namespaceURI, "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `${sheet}#${name}`);
  svg.append(use);
  button.prepend(svg);
}
