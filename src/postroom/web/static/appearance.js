"use strict";
// A picker beside the field for the colour. The field is what counts: it can also be empty.
const colour = document.getElementById("colour");
const picker = document.createElement("input");
picker.type = "color";
picker.setAttribute("aria-label", "Pick a colour");
const asShown = () => (/^#[0-9a-f]{6}$/i.test(colour.value) ? colour.value : "#1d5fbf");
picker.value = asShown();
colour.after(picker);
picker.addEventListener("input", () => {
  colour.value = picker.value;
  colour.dispatchEvent(new Event("input", { bubbles: true }));
});
colour.addEventListener("input", () => { picker.value = asShown(); });

// A logo that was chosen is shown before it is saved.
const file = document.getElementById("logo");
let chosen = "";
function showLogo() {
  if (!chosen) return;
  for (const card of document.querySelectorAll("#look .card")) {
    let image = card.querySelector("img.logo");
    if (!image) {
      image = document.createElement("img");
      image.className = "logo";
      image.alt = "";
      card.prepend(image);
    }
    image.src = chosen;
  }
}
file.addEventListener("change", () => {
  if (!file.files.length) return;
  const reader = new FileReader();
  reader.addEventListener("load", () => { chosen = reader.result; showLogo(); });
  reader.readAsDataURL(file.files[0]);
});
document.addEventListener("htmx:after:swap", showLogo);
