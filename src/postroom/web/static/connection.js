"use strict";
// Pages that refresh themselves show when they cannot: old figures must not look like new ones.
// Other scripts report it with the events postroom:lost and postroom:found.
(() => {
  const note = document.getElementById("no-connection");
  if (!note) return;

  function lost() {
    if (!note.hidden) return;
    const clock = new Date().toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
    note.textContent = `Connection lost at ${clock}. This page may be out of date.`;
    note.hidden = false;
    document.body.classList.add("out-of-date");
  }

  function found() {
    note.hidden = true;
    note.textContent = "";
    document.body.classList.remove("out-of-date");
  }

  document.addEventListener("htmx:after:request", (event) => {
    if (event.detail.ctx.response.status >= 500) lost(); else found();
  });
  document.addEventListener("htmx:error", (event) => {
    const { ctx } = event.detail;
    if (ctx && !ctx.response) lost();
  });
  document.addEventListener("postroom:lost", lost);
  document.addEventListener("postroom:found", found);
})();
