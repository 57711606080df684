"use strict";
// Tables with selectable rows: a checkbox for all of them, and the number of selected rows.
for (const form of document.querySelectorAll("form[data-selectable]")) {
  const all = form.querySelector("input[data-all]");
  const label = form.querySelector("[data-count]");
  const boxes = [...form.querySelectorAll("tbody input[type=checkbox]")];
  if (!all) continue;
  const update = () => {
    const selected = boxes.filter((box) => box.checked).length;
    all.checked = selected === boxes.length;
    all.indeterminate = selected > 0 && selected < boxes.length;
    label.textContent = `${selected} selected`;
  };
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    update();
  });
  form.addEventListener("change", update);
}
