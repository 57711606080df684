"use strict";
// Buttons that copy the content of an element; they stay hidden without this script.
function offerCopying(part) {
  for (const button of part.querySelectorAll("button[data-copy][hidden]")) {
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
}
offerCopying(document);
document.addEventListener("htmx:after:swap", () => offerCopying(document));
