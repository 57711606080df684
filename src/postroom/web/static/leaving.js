"use strict";
// Forms with data-leaving: whoever has changed something and goes away is asked first.
// data-leaving="unsaved": what is in the form is nowhere else, so nothing has to be changed for it.
for (const form of document.querySelectorAll("form[data-leaving]")) {
  let unsaved = form.dataset.leaving === "unsaved";
  form.addEventListener("input", () => { unsaved = true; });
  form.addEventListener("submit", (event) => {
    // A preview goes into a frame, and the form stays.
    if (!(event.submitter && event.submitter.formTarget)) unsaved = false;
  });
  window.addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });
}
