"use strict";
// Shows a message's HTML at the width of an email program, scaled down to the available space.
// Without this script, the frame is as wide as its box. A part that is inserted later announces
// itself with the event `postroom:inserted`.
(() => {
  // On a phone, an email at the width of a computer would be too small to read.
  const isPhone = matchMedia("(max-width: 40rem)").matches;
  const scale = (part) => {
    for (const box of part.querySelectorAll(".preview-box")) {
      const fit = () => {
        const width = parseFloat(getComputedStyle(box).getPropertyValue("--width"));
        box.style.setProperty("--scale", Math.min(1, box.clientWidth / width));
      };
      box.classList.add("scaled");
      new ResizeObserver(fit).observe(box);
      for (const choice of box.parentElement.querySelectorAll("input[name=width]")) {
        if (isPhone && choice.value === "phone") choice.checked = true;
        choice.addEventListener("change", fit);
      }
      fit();
    }
  };
  scale(document);
  document.addEventListener("postroom:inserted", (event) => scale(event.target));
})();
