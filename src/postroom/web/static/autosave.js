"use strict";
// A draft saves itself soon after typing stops. What is not saved yet is kept in this browser
// (localStorage), so that neither a lost connection nor a closed window loses it.
(() => {
  const form = document.querySelector("form[data-autosave]");
  if (!form) return;
  const PAUSE = 1500, LONGEST = 2000, KEEP_PAUSE = 250; // milliseconds
  const RETRIES = [2000, 4000, 8000, 15000];
  const PREFIX = "postroom.draft.";
  const NOT_CONTENT = ["test_to", "width", "theme", "preview_as"];
  const NOT_KEPT = new Set(["csrf", "ref", "resolve", "then", "to", ...NOT_CONTENT]);
  const state = document.getElementById("save-state");
  const conflict = document.getElementById("conflict"), keptNote = document.getElementById("kept");
  const fields = form.elements;

  let changedAt = 0;     // when the oldest change that is not saved was made; 0: everything is saved
  let saving = null;     // the promise of the request that is on its way
  let isBlocked = false; // a conflict has to be resolved first
  const shownFormat = fields.format.value;
  let isOtherFormat = false; // what was kept has another format than the page: it is loaded again
  let failures = 0, timer = 0, keepTimer = 0;

  // — Kept in this browser —

  const place = () => PREFIX + (fields.ref.value || fields.key.value);
  const boxes = () => [...form.querySelectorAll("input[type=checkbox][name]")];
  const nameOf = (box) => `${box.name}=${box.value}`;
  function snapshot() {
    const values = {};
    for (const [name, value] of new FormData(form)) {
      if (typeof value === "string" && !NOT_KEPT.has(name)) values[name] = value;
    }
    return { ...values, ticked: boxes().filter((box) => box.checked).map(nameOf) };
  }
  function keep() {
    clearTimeout(keepTimer);
    if (!changedAt) return;
    try {
      localStorage.setItem(place(), JSON.stringify({ at: Date.now(), ref: fields.ref.value, values: snapshot() }));
    } catch { /* full or forbidden: the page still has the text */ }
  }
  function forget(where) {
    clearTimeout(keepTimer);
    try { localStorage.removeItem(where); } catch { /* forbidden */ }
  }
  function kept(where) {
    try { return JSON.parse(localStorage.getItem(where)); } catch { return null; }
  }
  function fill(values) {
    for (const [name, value] of Object.entries(values)) {
      if (!fields[name]) continue;
      fields[name].value = value;
      const holder = fields[name].closest && fields[name].closest("details");
      if (holder && value) holder.open = true;
    }
    if (values.ticked) for (const box of boxes()) box.checked = values.ticked.includes(nameOf(box));
    if (values.format && values.format !== shownFormat) isOtherFormat = true;
    for (const name of ["list", "body", "attachments"]) fields[name]?.dispatchEvent(new Event("input", { bubbles: true }));
  }

  // — Saving —

  function show(text, kind = "") {
    if (state.textContent !== text) state.textContent = text;
    state.className = `save-state ${kind}`;
  }
  function later(pause) {
    clearTimeout(timer);
    timer = setTimeout(save, pause);
  }
  // Save when typing pauses, and at the latest two seconds after the first change.
  function schedule() {
    later(Math.max(0, Math.min(PAUSE, changedAt + LONGEST - Date.now())));
  }
  function changed() {
    changedAt ||= Date.now();
    clearTimeout(keepTimer);
    keepTimer = setTimeout(keep, KEEP_PAUSE);
    if (isBlocked) return;
    if (failures) return;
    show("Saving…");
    schedule();
  }
  function request(more = {}) {
    const data = new FormData(form);
    for (const [name, value] of [...data]) if (typeof value !== "string") data.delete(name);
    for (const [name, value] of Object.entries(more)) data.set(name, value);
    return fetch(form.dataset.autosave, {
      method: "POST", body: data, headers: { "HX-Request": "true" }, signal: AbortSignal.timeout(20000),
    });
  }
  function save(more = {}) {
    clearTimeout(timer);
    if (saving) return saving;
    if (!changedAt || isBlocked) return Promise.resolve();
    saving = attempt(more).finally(() => { saving = null; });
    return saving;
  }
  async function attempt(more) {
    const began = changedAt, where = place();
    keep();
    changedAt = 0;
    show("Saving…");
    let answer;
    try {
      answer = await request(more);
    } catch {
      answer = null;
    }
    if (answer && answer.ok) {
      const saved = await answer.json();
      failures = 0;
      conflict.replaceChildren();
      adopt(saved, where);
      if (changedAt) { schedule(); return; }
      forget(place());
      show("Saved");
      if (isOtherFormat) location.reload();
      return;
    }
    changedAt = began;
    keep();
    if (answer && answer.status === 409) { await block(answer); return; }
    if (answer && answer.status === 422) { show(`Not saved: ${(await answer.json()).problem}`, "wrong"); return; }
    if (answer && (answer.status === 401 || answer.status === 403)) {
      show("Not saved: log in again. Kept in this browser.", "wrong");
      return;
    }
    show(answer ? "Not saved: the server has a problem. Kept in this browser." : "Not saved: offline, kept in this browser.", "wrong");
    later(RETRIES[Math.min(failures++, RETRIES.length - 1)]);
  }
  function adopt(saved, where) {
    fields.etag.value = saved.etag;
    form.dispatchEvent(new Event("postroom:saved"));
    if (fields.ref.value) return;
    forget(where);
    fields.ref.value = saved.ref;
    const base = `/messages/${saved.ref}`;
    form.action = `${base}/edit`;
    for (const each of document.querySelectorAll("[data-path]")) {
      each.setAttribute(each.matches("form") ? "action" : "href", base + each.dataset.path);
    }
    for (const each of document.querySelectorAll("[data-needs-ref]")) each.hidden = false;
    history.replaceState(history.state, "", `${base}/edit`);
    if (changedAt) keep();
  }

  // — Someone else was first —

  async function block(answer) {
    isBlocked = true;
    show("Not saved: changed in another window. Kept in this browser.", "wrong");
    conflict.innerHTML = await answer.text();
    conflict.scrollIntoView({ block: "nearest" });
  }
  conflict.addEventListener("click", async (event) => {
    const choice = event.target.closest("[data-resolve]");
    if (!choice) return;
    const panel = conflict.firstElementChild;
    const how = choice.dataset.resolve;
    if (how === "theirs") {
      const answer = await request({ resolve: "theirs" }).catch(() => null);
      if (!answer || !answer.ok) { show("Not saved: offline, kept in this browser.", "wrong"); return; }
      changedAt = 0;
      forget(place());
      location.reload();
      return;
    }
    if (how === "new") {
      forget(place());
      [fields.ref.value, fields.etag.value, fields.key.value] = ["", "", panel.dataset.key];
    } else {
      fields.etag.value = panel.dataset.etag;
    }
    isBlocked = false;
    changedAt ||= Date.now();
    await save(how === "mine" ? { resolve: "mine" } : {});
    fields.body.dispatchEvent(new Event("postroom:focus"));
  });

  // — Events —

  const isContent = (field) => field.form === form && field.name && field.type !== "file" && !NOT_CONTENT.includes(field.name);

  for (const each of form.querySelectorAll("[data-without-script]")) each.hidden = true;

  form.addEventListener("input", (event) => {
    if (isContent(event.target)) changed();
  });
  form.addEventListener("change", (event) => { if (isContent(event.target)) changed(); });
  // Someone may have typed before this script was there.
  const isTyped = (field) => isContent(field) && /^(text|email|textarea)$/.test(field.type) && field.name !== "body" && field.value !== field.defaultValue;
  if ([...fields].some(isTyped)) changed();
  window.addEventListener("online", () => { failures = 0; save(); });
  document.addEventListener("visibilitychange", () => { if (document.hidden) { keep(); save(); } });
  window.addEventListener("pagehide", keep);

  // A button waits until the draft is saved: a request on its way changes the ETag.
  let isReady = false;
  form.addEventListener("submit", async (event) => {
    if (isReady || (event.submitter && event.submitter.formTarget)) return;
    event.preventDefault();
    while (saving) await saving;
    await save();
    await new Promise((resolve) => { setTimeout(resolve); }); // a form ignores this during its own event
    if (isBlocked) { conflict.scrollIntoView({ block: "nearest" }); return; }
    if (changedAt) return; // not saved: the state says why
    isReady = true;
    form.requestSubmit(event.submitter);
  });
  window.addEventListener("pageshow", () => { isReady = false; });

  // — What an earlier visit left unsaved —

  const mine = fields.ref.value && kept(place());
  if (mine) {
    fill(mine.values);
    changedAt = mine.at;
    save();
  } else if (!fields.ref.value) {
    const orphan = Object.keys(localStorage).find((name) => {
      const found = name.startsWith(PREFIX) && kept(name);
      return found && !found.ref;
    });
    if (orphan) offer(orphan);
  }
  function offer(where) {
    const found = kept(where), time = keptNote.querySelector("time");
    time.dateTime = new Date(found.at).toISOString();
    time.textContent = new Date(found.at).toLocaleString();
    keptNote.hidden = false;
    keptNote.addEventListener("click", (event) => {
      const choice = event.target.closest("[data-kept]");
      if (!choice) return;
      keptNote.hidden = true;
      if (choice.dataset.kept === "restore") {
        fill(found.values);
        changedAt = Date.now();
        save();
      } else {
        forget(where);
      }
    });
  }
})();
