"use strict";
// Buttons that copy what a field or a text says; without a script they are not shown.
for (const button of document.querySelectorAll("button[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  if (!source || !navigator.clipboard) continue;
  const text = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(("value" in source ? source.value : source.textContent).trim());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = text; }, 2000);
  });
}
