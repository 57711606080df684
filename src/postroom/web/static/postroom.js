"use strict";
// The menu on a phone.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.menu");
  if (!button) return;
  const open = document.getElementById("navigation").classList.toggle("open");
  button.setAttribute("aria-expanded", String(open));
});

// htmx requests carry the CSRF token of their page.
document.addEventListener("htmx:config:request", (event) => {
  const token = document.querySelector('meta[name="csrf-token"]');
  const request = event.detail.ctx ? event.detail.ctx.request : event.detail;
  if (token) request.headers["X-CSRF-Token"] = token.content;
});

// Show times in the browser's time zone, and name it; the server writes them in UTC.
const zoneNote = document.getElementById("zone-of-times");
const zoneName = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zoneNote) zoneNote.textContent = `Times are shown in your time zone (${zoneName}).`;
function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!isNaN(at)) {
      if (zoneNote) zoneNote.hidden = false;
      time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    }
  }
}
localTimes(document);
document.addEventListener("htmx:after:swap", () => localTimes(document));
