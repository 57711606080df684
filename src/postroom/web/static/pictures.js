"use strict";
// Uploads pictures that are chosen, dropped anywhere on the page, or pasted: one after the other,
// each with its progress. Without this script, the form uploads one picture.
(() => {
  const form = document.getElementById("upload");
  const input = form.querySelector("input[type=file]");
  const grid = document.getElementById("pictures"), list = document.getElementById("uploads");
  const status = document.getElementById("uploaded");
  const largest = Number(form.dataset.largest);
  const waiting = [];
  let isBusy = false, done = 0, failed = 0;

  // One button that opens the browser's dialog; the field itself cannot be styled.
  input.multiple = true;
  input.required = false;
  input.hidden = true;
  form.querySelector("label").hidden = true;
  const button = form.querySelector("button[type=submit]");
  button.textContent = "Upload pictures…";
  for (const each of form.querySelectorAll("[data-with-script]")) each.hidden = false;

  function add(files) {
    for (const file of files) {
      const item = document.createElement("li"), name = document.createElement("span");
      const bar = document.createElement("progress");
      name.textContent = file.name;
      bar.max = 1;
      bar.value = 0;
      bar.setAttribute("aria-label", `Upload of ${file.name}`);
      item.append(name, bar);
      list.append(item);
      list.hidden = false;
      if (file.size > largest) fail(item, `${file.name} must be at most ${largest / 1e6} MB, not ${(file.size / 1e6).toFixed(1)} MB: scale it down.`);
      else waiting.push({ file, item, bar });
    }
    if (!isBusy) next();
  }

  function fail(item, text) {
    failed += 1;
    const problem = document.createElement("span"), close = document.createElement("button");
    problem.className = "wrong";
    problem.textContent = text;
    close.type = "button";
    close.className = "plain";
    close.textContent = "Dismiss";
    close.addEventListener("click", () => { item.remove(); list.hidden = !list.children.length; button.focus(); });
    item.replaceChildren(problem, close);
  }

  function next() {
    const upload = waiting.shift();
    isBusy = Boolean(upload);
    if (!upload) { report(); return; }
    const { file, item, bar } = upload, request = new XMLHttpRequest(), content = new FormData();
    content.append("file", file, file.name);
    request.open("POST", form.action);
    request.setRequestHeader("X-CSRF-Token", document.querySelector('meta[name="csrf-token"]').content);
    request.setRequestHeader("HX-Request", "true");
    request.upload.addEventListener("progress", (event) => {
      // The last part belongs to the server, which has to decode the picture.
      if (event.lengthComputable) bar.value = 0.9 * event.loaded / event.total;
    });
    request.addEventListener("readystatechange", () => {
      const isKnown = request.readyState === XMLHttpRequest.HEADERS_RECEIVED;
      if (isKnown && request.status === 200) request.responseType = "document";
    });
    request.addEventListener("loadend", () => {
      const login = request.getResponseHeader("HX-Redirect");
      if (login) { location.href = login; return; }
      if (request.status === 200) {
        show(request.response);
        item.remove();
        list.hidden = !list.children.length;
      } else {
        const text = request.status === 422 ? request.responseText : "";
        fail(item, text || `${file.name} could not be uploaded${request.status ? ` (status ${request.status})` : ": there is no connection"}. Try again.`);
      }
      next();
    });
    request.send(content);
  }

  function show(answer) {
    const card = document.importNode(answer.querySelector("li.picture"), true);
    grid.querySelector(`[data-hash="${card.dataset.hash}"]`)?.remove();
    card.classList.add("new");
    grid.prepend(card);
    grid.hidden = document.getElementById("find").hidden = false;
    document.getElementById("no-pictures")?.remove();
    done += 1;
  }

  function report() {
    const parts = [];
    if (done) parts.push(done === 1 ? "1 picture uploaded." : `${done} pictures uploaded.`);
    if (failed) parts.push(failed === 1 ? "1 picture could not be uploaded." : `${failed} pictures could not be uploaded.`);
    status.textContent = parts.join(" ");
    done = failed = 0;
  }

  input.addEventListener("change", () => {
    const files = [...input.files];
    input.value = "";
    add(files);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); input.click(); });

  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0;  // dragenter and dragleave come for every element that is passed
  const mark = (change) => {
    depth = change === 0 ? 0 : Math.max(0, depth + change);
    form.classList.toggle("over", depth > 0);
  };
  document.addEventListener("dragenter", (event) => { if (hasFiles(event)) mark(1); });
  document.addEventListener("dragleave", (event) => { if (hasFiles(event)) mark(-1); });
  document.addEventListener("dragover", (event) => { if (hasFiles(event)) event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    mark(0);
    add(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    add(files);
  });
  window.addEventListener("beforeunload", (event) => { if (isBusy) event.preventDefault(); });
})();
