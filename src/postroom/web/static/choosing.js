"use strict";
// Tables whose rows can be ticked: all at once, and how many are.
for (const form of document.querySelectorAll("form[data-choosing]")) {
  const all = form.querySelector("input[data-all]");
  const said = form.querySelector("[data-count]");
  const boxes = [...form.querySelectorAll("tbody input[type=checkbox]")];
  if (!all) continue;
  const tell = () => {
    const ticked = boxes.filter((box) => box.checked).length;
    all.checked = ticked === boxes.length;
    all.indeterminate = ticked > 0 && ticked < boxes.length;
    said.textContent = ticked ? `${ticked} selected:` : "Selected:";
  };
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    tell();
  });
  form.addEventListener("change", tell);
}
