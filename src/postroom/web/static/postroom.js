"use strict";
// The menu on a phone.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.menu");
  if (!button) return;
  const open = document.getElementById("navigation").classList.toggle("open");
  button.setAttribute("aria-expanded", String(open));
});

// What htmx sends carries the token of the page it came from.
document.addEventListener("htmx:config:request", (event) => {
  const token = document.querySelector('meta[name="csrf-token"]');
  const request = event.detail.ctx ? event.detail.ctx.request : event.detail;
  if (token) request.headers["X-CSRF-Token"] = token.content;
});

// Moments in the reader's own time zone, which the page names; the server wrote them in UTC.
const zoneNote = document.getElementById("zone-of-times");
const zoneName = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zoneNote) zoneNote.textContent = `Times are in ${zoneName}, the time zone of your browser.`;
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
