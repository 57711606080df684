// The form of a field: shows the inputs that belong to the chosen type, and suggests a name.
"use strict";

const form = document.getElementById("field-form");
const { type, name, label_en: label } = form.elements;

function showInputs() {
  for (const part of form.querySelectorAll("[data-types]")) {
    part.hidden = !part.dataset.types.split(" ").includes(type.value);
  }
}

function suggestName() {
  const plain = label.value.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
  name.value = plain.replace(/[^a-z0-9]+/g, "_").replace(/^[_0-9]+|_+$/g, "").slice(0, 40);
}

type.addEventListener("change", showInputs);
showInputs();
if (!name.value) {
  const suggest = () => suggestName();
  label.addEventListener("input", suggest);
  name.addEventListener("input", () => label.removeEventListener("input", suggest), { once: true });
}
