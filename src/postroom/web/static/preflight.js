"use strict";
// The checks before sending: shown again until slow ones are done, and in the editor after each save.
// The page of a scheduled message loads them with this script.
(() => {
  const place = document.getElementById("preflight");
  const form = document.getElementById("message");
  if (!place) return;
  const AFTER_SAVE = 1500, SOON = 500, AGAIN = 2000, MOST = 10;
  let timer = 0, isBusy = false;

  async function show(left) {
    const ref = form ? form.elements.ref.value : place.dataset.ref;
    if (!ref) return;
    if (isBusy) { later(AGAIN, left); return; } // large audiences take a while to count
    isBusy = true;
    try {
      const answer = await fetch(`/messages/${ref}/preflight`, { headers: { "HX-Request": "true" } });
      if (!answer.ok) return;
      place.innerHTML = await answer.text();
      showNumber(place.firstElementChild?.dataset);
    } catch {
      return;
    } finally {
      isBusy = false;
    }
    if (isChecking() && left) later(AGAIN, left - 1);
  }

  // The question before sending names the number in its heading and at its button, too.
  function showNumber(found) {
    if (form || !found?.receivers) return;
    for (const each of document.querySelectorAll("[data-part=receivers]")) {
      each.textContent = `${each.dataset.before || ""}${found.receivers}${each.dataset.after || ""}`;
    }
  }

  function isChecking() {
    return Number(place.firstElementChild?.dataset.checking) > 0;
  }

  function later(delay, left) {
    clearTimeout(timer);
    timer = setTimeout(() => show(left), delay);
  }

  if (form) {
    form.addEventListener("postroom:saved", () => later(AFTER_SAVE, MOST));
    later(0, MOST);
  } else if ("atOnce" in place.dataset) {
    later(0, MOST);
  } else if (isChecking()) {
    later(SOON, MOST);
  }
})();
