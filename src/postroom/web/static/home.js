"use strict";
// Home: the greeting, and new figures when a message is finished.
(() => {
  const greeting = document.querySelector("[data-greeting]");
  const hour = new Date().getHours();
  greeting.textContent = hour < 5 || hour >= 18 ? "Good evening" : hour < 12 ? "Good morning" : "Good afternoon";

  // When a message is finished, the figures of the last message change.
  const sending = () => document.querySelector("[data-sending]")?.dataset.sending ?? "";
  let before = sending();
  document.addEventListener("htmx:after:swap", () => {
    if (sending() === before) return;
    before = sending();
    htmx.trigger(document.getElementById("home-figures"), "home:changed");
  });
})();
