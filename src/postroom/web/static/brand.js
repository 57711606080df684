"use strict";
// A colour picker next to the text field, which stays the one that is submitted: it may be empty.
const colour = document.getElementById("colour");
const picker = document.createElement("input");
picker.type = "color";
picker.setAttribute("aria-label", "Pick a colour");
const pickerValue = () => (/^#[0-9a-f]{6}$/i.test(colour.value) ? colour.value : "#27509b");
picker.value = pickerValue();
colour.after(picker);
picker.addEventListener("input", () => {
  colour.value = picker.value;
  colour.dispatchEvent(new Event("input", { bubbles: true }));
});
colour.addEventListener("input", () => { picker.value = pickerValue(); });

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
