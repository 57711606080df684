"use strict";
// The button that opens the print dialog. Without this script, the browser's own menu does it.
for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}
