"use strict";
// The form of a message: files into their fields, time zone of the browser, live preview, test.
(() => {
  const form = document.getElementById("message");
  if (!form) return;
  const PAUSE = 700;
  const part = (id) => document.getElementById(id);

  async function send(to, data) {
    return fetch(to, { method: "POST", body: data, headers: { "HX-Request": "true" } });
  }

  // What a file holds is shown where it would have been typed, so it can be changed there.
  for (const chooser of form.querySelectorAll("input[type=file][data-into]")) {
    chooser.addEventListener("change", async () => {
      if (!chooser.files.length) return;
      const data = new FormData();
      data.append("csrf", form.elements.csrf.value);
      data.append("which", chooser.dataset.into);
      data.append(chooser.name, chooser.files[0]);
      const answer = await send("/messages/read-file", data);
      const text = await answer.text();
      if (answer.ok) {
        form.elements[chooser.dataset.into].value = text;
        chooser.value = "";
        chooser.setCustomValidity("");
        changed();
      } else {
        chooser.setCustomValidity(answer.status === 422 ? text : "This file cannot be taken.");
        chooser.reportValidity();
      }
    });
  }

  // Times in the zone of whoever sits here.
  const zone = form.elements.zone, mine = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const known = [...zone.options].some((each) => each.value === mine);
  const moment = form.querySelector(".moment");
  if (known && "mine" in zone.dataset) zone.value = mine;
  if (known && moment.dataset.utc) {
    const at = new Date(moment.dataset.utc), two = (value) => String(value).padStart(2, "0");
    form.elements.day.value = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    form.elements.clock.value = `${two(at.getHours())}:${two(at.getMinutes())}`;
    zone.value = mine;
  }

  // A new frame is loaded behind the one that is shown, scrolled to the same place, and then takes
  // its place: nothing flickers. It is a new one each time, because the browser's Back would
  // otherwise go through all previews.
  const box = form.querySelector(".preview-box"), show = part("show-preview");
  let frames = 0;
  function showFrame() {
    for (const late of box.querySelectorAll("iframe.next")) late.remove();
    const fresh = box.querySelector("iframe.preview").cloneNode(false);
    fresh.className = "next";
    fresh.name = `preview-${++frames}`;
    box.append(fresh);
    fresh.addEventListener("load", () => swap(fresh));
    show.formTarget = fresh.name;
    form.requestSubmit(show);
  }
  function swap(fresh) {
    const old = box.querySelector("iframe.preview");
    try {
      if (fresh.contentWindow.location.href === "about:blank") return;
      fresh.contentWindow.scrollTo(old.contentWindow.scrollX, old.contentWindow.scrollY);
    } catch {
      fresh.remove(); // the browser's own page about a server that cannot be reached
      return;
    }
    fresh.className = "preview";
    old.remove();
  }
  show.addEventListener("click", (event) => {
    event.preventDefault();
    showWords();
    showFrame();
  });
  let latest = 0;
  async function showWords() {
    const turn = ++latest;
    const answer = await send("/messages/preview/words", new FormData(form));
    if (answer.ok && turn === latest) part("words").innerHTML = await answer.text();
  }
  let timer = 0;
  function changed() {
    clearTimeout(timer);
    timer = setTimeout(() => { showWords(); showFrame(); }, PAUSE);
  }
  for (const name of ["list", "subject", "html", "text"]) {
    form.elements[name].addEventListener("input", changed);
  }
  if (form.elements.html.value || form.elements.text.value || form.elements.list.value) changed();

  const test = part("send-test");
  test.addEventListener("click", async (event) => {
    event.preventDefault();
    const address = form.elements.test_to;
    if (!address.value || !address.checkValidity()) { address.reportValidity(); return; }
    test.setAttribute("aria-busy", "true");
    test.disabled = true;
    try {
      const answer = await send("/messages/test", new FormData(form));
      part("test-result").innerHTML = answer.ok ? await answer.text() : "";
      if (!answer.ok) part("test-result").textContent = "That did not work: load the page again.";
    } finally {
      test.removeAttribute("aria-busy");
      test.disabled = false;
    }
  });
})();
