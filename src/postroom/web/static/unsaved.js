"use strict";
// Forms with data-unsaved: the browser asks before it leaves a page with unsaved changes.
// data-unsaved="always": the form's content is stored nowhere, so it asks even without a change.
for (const form of document.querySelectorAll("form[data-unsaved]")) {
  let isUnsaved = form.dataset.unsaved === "always";
  form.addEventListener("input", () => { isUnsaved = true; });
  form.addEventListener("submit", (event) => {
    // A preview is submitted into a frame, and the form stays.
    if (!(event.submitter && event.submitter.formTarget)) isUnsaved = false;
  });
  window.addEventListener("beforeunload", (event) => { if (isUnsaved) event.preventDefault(); });
}
