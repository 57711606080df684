"use strict";
// The editor: uploaded files, the browser's time zone, live preview, test emails.
(() => {
  const form = document.getElementById("message");
  if (!form) return;
  const PREVIEW_DELAY = 700;
  const part = (id) => document.getElementById(id);

  // Return null without a connection.
  async function send(to, data) {
    return fetch(to, { method: "POST", body: data, headers: { "HX-Request": "true" } }).catch(() => null);
  }

  // An uploaded file fills its text field, where it can be edited.
  for (const chooser of form.querySelectorAll("input[type=file][data-into]")) {
    chooser.addEventListener("change", async () => {
      if (!chooser.files.length) return;
      const data = new FormData();
      data.append("csrf", form.elements.csrf.value);
      data.append("which", chooser.dataset.into);
      data.append(chooser.name, chooser.files[0]);
      const answer = await send("/messages/read-file", data);
      const text = answer ? await answer.text() : "Not read: offline. Choose the file again once you are online.";
      if (answer?.ok) {
        const field = form.elements[chooser.dataset.into];
        field.value = text;
        chooser.value = "";
        chooser.setCustomValidity("");
        field.dispatchEvent(new Event("input", { bubbles: true }));
      } else {
        chooser.setCustomValidity(!answer || answer.status === 422 ? text : "This file cannot be used.");
        chooser.reportValidity();
      }
    });
  }

  // The page has the name of the message.
  const heading = document.querySelector("h1"), unnamed = form.elements.ref.value ? "(no subject)" : heading.textContent;
  form.elements.subject.addEventListener("input", (event) => {
    const before = heading.textContent, name = event.target.value.trim() || unnamed;
    heading.textContent = name;
    document.title = document.title.replace(before, () => name);
  });

  // Show times in the browser's time zone.
  const zone = form.elements.zone, mine = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const known = zone && [...zone.options].some((each) => each.value === mine);
  const moment = form.querySelector(".moment");
  if (known && "mine" in zone.dataset) zone.value = mine;
  if (known && moment.dataset.utc) {
    const at = new Date(moment.dataset.utc), two = (value) => String(value).padStart(2, "0");
    form.elements.day.value = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    form.elements.clock.value = `${two(at.getHours())}:${two(at.getMinutes())}`;
    zone.value = mine;
  }

  // A new frame is loaded behind the visible one, scrolled to the same position, and then takes
  // its place, so that nothing flickers. It is a new one each time, because the Back button would
  // otherwise step through all previews.
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
      fresh.remove(); // the browser's own error page
      return;
    }
    fresh.className = "preview";
    old.remove();
  }
  show.addEventListener("click", (event) => {
    event.preventDefault();
    showText();
    showFrame();
  });
  let latest = 0;
  async function showText() {
    const request = ++latest;
    const answer = await send("/messages/preview/text", new FormData(form));
    if (!answer?.ok || request !== latest) return;
    const into = part("preview-text"), isOpen = into.querySelector("details")?.open;
    into.innerHTML = await answer.text();
    if (isOpen && into.querySelector("details")) into.querySelector("details").open = true;
    part("preview-inbox").replaceChildren(...into.querySelectorAll("[data-part=preview-inbox]"));
  }
  let timer = 0;
  function changed() {
    clearTimeout(timer);
    timer = setTimeout(() => { showText(); showFrame(); }, PREVIEW_DELAY);
  }
  const SHOWN = [
    "list", "segment", "exclude_segments", "exclude_lists", "more_lists", "subject", "preheader", "from_name",
    "body", "text", "template", "theme", "preview_as",
  ];
  form.addEventListener("input", (event) => { if (SHOWN.includes(event.target.name)) changed(); });
  if (form.elements.body.value || form.elements.text.value || form.elements.list.value) changed();
  window.addEventListener("online", changed);

  function showProblem(text) {
    const problem = document.createElement("p");
    problem.className = "problem";
    problem.textContent = text;
    part("test-result").replaceChildren(problem);
  }
  const test = part("send-test");
  test.addEventListener("click", async (event) => {
    event.preventDefault();
    const address = form.elements.test_to;
    if (!address.value || !address.checkValidity()) { address.reportValidity(); return; }
    test.setAttribute("aria-busy", "true");
    test.disabled = true;
    try {
      const answer = await send("/messages/test", new FormData(form));
      if (answer?.ok) part("test-result").innerHTML = await answer.text();
      else showProblem(answer ? "The test could not be sent. Reload the page and try again." : "Not sent: offline. Try again once you are online.");
    } finally {
      test.removeAttribute("aria-busy");
      test.disabled = false;
    }
  });
})();
