"use strict";
// Shows every <time datetime> in the visitor's time zone, with the exact time on hover, and keeps
// relative times up to date. The rules are those of web/rendering/times.py.
//   data-show="relative" (or nothing): "5 min ago", "in 2 days"; a date if it is over 30 days away
//   data-show="upcoming": the same, but "now" once the moment has come
//   data-show="clock": "21:04", or "9 Nov, 21:04" on another day
//   data-show="date": "9 Nov 2026, 21:04", even today
//   data-show="day": "9 Nov", in UTC: numbers by day are counted in UTC
(() => {
  // The pages are in English: its words, and the visitor's conventions if those are English, too.
  const locale = navigator.language.startsWith("en") ? navigator.language : "en-GB";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const format = (options) => new Intl.DateTimeFormat(locale, options);
  const clock = format({ hour: "2-digit", minute: "2-digit" });
  const dayAndClock = format({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  const day = format({ day: "numeric", month: "short", timeZone: "UTC" });
  const date = format({ day: "numeric", month: "short", year: "numeric" });
  const exact = format({ dateStyle: "full", timeStyle: "long" });
  const DAY = 86400;

  function relative(at, now) {
    const seconds = Math.floor(Math.abs(now - at) / 1000);
    if (seconds >= 30 * DAY) return date.format(at);
    for (const [unit, length] of [["day", DAY], ["h", 3600], ["min", 60], ["s", 1]]) {
      if (seconds < length) continue;
      const count = Math.floor(seconds / length);
      const shown = `${count} ${unit}${unit === "day" && count > 1 ? "s" : ""}`;
      return at < now ? `${shown} ago` : `in ${shown}`;
    }
    return "just now";
  }

  function text(at, now, kind) {
    if (kind === "upcoming" && at - now < 1000) return "now";
    if (kind === "day") return day.format(at);
    if (kind === "date") return exactShort(at);
    if (kind !== "clock") return relative(at, now);
    if (at.getFullYear() !== now.getFullYear()) return exactShort(at);
    return at.toDateString() === now.toDateString() ? clock.format(at) : dayAndClock.format(at);
  }

  function exactShort(at) {
    return `${date.format(at)}, ${clock.format(at)}`;
  }

  function show() {
    const now = new Date();
    const note = document.getElementById("zone-of-times");
    for (const time of document.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      const shown = text(at, now, time.dataset.show);
      if (time.textContent !== shown) time.textContent = shown;
      time.title = exact.format(at);
      if (note && note.hidden) {
        note.textContent = `Times are shown in your time zone (${zone}).`;
        note.hidden = false;
      }
    }
  }

  show();
  for (const event of ["htmx:after:swap", "postroom:inserted"]) document.addEventListener(event, show);
  setInterval(show, 10000);
})();
