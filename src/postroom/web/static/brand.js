"use strict";
// A colour picker next to each text field, which stays the one that is submitted: it may be empty.
const DEFAULT = "#27509b";
const accent = document.getElementById("colour");
const valid = (text) => (/^#[0-9a-f]{6}$/i.test(text) ? text : "");
function offerPicker(colour, label, otherwise) {
  const picker = document.createElement("input");
  picker.type = "color";
  picker.setAttribute("aria-label", label);
  const show = () => { picker.value = valid(colour.value) || otherwise(); };
  show();
  colour.after(picker);
  picker.addEventListener("input", () => {
    colour.value = picker.value;
    colour.dispatchEvent(new Event("input", { bubbles: true }));
  });
  for (const each of new Set([colour, accent])) each.addEventListener("input", show);
}
offerPicker(accent, "Pick a colour", () => DEFAULT);
offerPicker(document.getElementById("button_colour"), "Pick a button colour", () => valid(accent.value) || DEFAULT);

// The preview shows a chosen logo before it is saved.
const file = document.getElementById("logo");
let chosen = "";
function showLogo() {
  if (!chosen) return;
  const image = document.createElement("img");
  image.className = "logo";
  image.alt = "";
  image.src = chosen;
  for (const head of document.querySelectorAll("#preview .sample-head")) head.replaceChildren(image);
}
file.addEventListener("change", () => {
  if (!file.files.length) return;
  const reader = new FileReader();
  reader.addEventListener("load", () => { chosen = reader.result; showLogo(); });
  reader.readAsDataURL(file.files[0]);
});
document.addEventListener("htmx:after:swap", showLogo);
