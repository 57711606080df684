"use strict";
// Shows a message's HTML at the width of an email program, scaled down to the available space.
// Without this script, the frame is as wide as its box.
(() => {
  for (const box of document.querySelectorAll(".preview-box")) {
    const fit = () => {
      const width = parseFloat(getComputedStyle(box).getPropertyValue("--width"));
      box.style.setProperty("--scale", Math.min(1, box.clientWidth / width));
    };
    box.classList.add("scaled");
    new ResizeObserver(fit).observe(box);
    for (const choice of box.parentElement.querySelectorAll("input[name=width]")) {
      choice.addEventListener("change", fit);
    }
    fit();
  }
})();
