"use strict";
// The checks before sending: shown again after each save, and until slow ones are done.
(() => {
  const place = document.getElementById("preflight");
  const form = document.getElementById("message");
  if (!place || !form) return;
  const AFTER_SAVE = 1500, AGAIN = 2000, MOST = 10;
  let timer = 0, isBusy = false;

  async function show(left) {
    const ref = form.elements.ref.value;
    if (!ref) return;
    if (isBusy) { later(AGAIN, left); return; } // large audiences take a while to count
    isBusy = true;
    try {
      const answer = await fetch(`/messages/${ref}/preflight`, { headers: { "HX-Request": "true" } });
      if (!answer.ok) return;
      place.innerHTML = await answer.text();
    } catch {
      return;
    } finally {
      isBusy = false;
    }
    const checking = Number(place.firstElementChild?.dataset.checking);
    if (checking && left) later(AGAIN, left - 1);
  }

  function later(delay, left) {
    clearTimeout(timer);
    timer = setTimeout(() => show(left), delay);
  }

  form.addEventListener("postroom:saved", () => later(AFTER_SAVE, MOST));
  later(0, MOST);
})();
