"use strict";
// The page of a list's emails: shows the email while it is typed. The form is sent to a frame,
// because an address cannot hold a long text. The frame is a new one each time, because the Back
// button would otherwise step through all previews.
(() => {
  const form = document.getElementById("list-email");
  if (!form) return;
  const PREVIEW_DELAY = 500;
  const box = document.getElementById("preview"), show = document.getElementById("show-preview");
  let timer = 0, frames = 0;
  function showEmail() {
    const old = box.querySelector("iframe"), fresh = old.cloneNode(false);
    fresh.removeAttribute("src");
    fresh.name = `sample-${++frames}`;
    old.replaceWith(fresh);
    show.formTarget = fresh.name;
    form.requestSubmit(show);
  }
  form.addEventListener("input", (event) => {
    if (!["subject", "text"].includes(event.target.name)) return;
    clearTimeout(timer);
    timer = setTimeout(showEmail, PREVIEW_DELAY);
  });
  if ("unsaved" in box.dataset) showEmail();
})();
