// Questions: each returns a promise of the answer, or null.
import { asLink } from "./rich_text.js";

const part = (id) => document.getElementById(id);

function ask(dialog) {
  return new Promise((resolve) => {
    dialog.returnValue = "";
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok"), { once: true });
    dialog.showModal();
  });
}

export async function askLink(current) {
  const field = part("link-address");
  field.value = current || "https://";
  const isSure = ask(part("link-dialog"));
  field.select();
  if (!await isSure) return null;
  const link = asLink(field.value);
  return link === "https://" ? "" : link;
}

// — Pictures —

export async function uploadPicture(file) {
  const data = new FormData();
  data.append("file", file, file.name || "picture");
  const answer = await fetch("/pictures", {
    method: "POST", body: data,
    headers: { "HX-Request": "true", "X-CSRF-Token": document.querySelector('meta[name="csrf-token"]').content },
  }).catch(() => null);
  if (!answer?.ok) {
    const isKnown = answer?.status === 422;
    throw new Error(isKnown ? await answer.text() : `${file.name} could not be uploaded${answer ? ` (status ${answer.status})` : ": there is no connection"}. Try again.`);
  }
  const card = new DOMParser().parseFromString(await answer.text(), "text/html");
  const image = card.querySelector("img");
  return { url: part("picture-dialog").dataset.base + image.getAttribute("src"), alt: "", width: Number(image.getAttribute("width")) };
}

export const picturesIn = (transfer) => [...(transfer?.files ?? [])].filter((each) => each.type.startsWith("image/"));

export async function askPicture({ alt = "" } = {}) {
  const dialog = part("picture-dialog"), choices = part("picture-choices"), altField = part("picture-alt");
  const query = part("picture-query"), state = part("picture-state"), insert = part("picture-insert");
  let chosen = null, timer = 0;

  const choose = (button) => {
    for (const each of choices.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === button));
    chosen = { url: button.dataset.url, alt: button.dataset.alt, width: Number(button.dataset.width) };
    if (!altField.value || altField.value === altField.dataset.filled) altField.value = altField.dataset.filled = chosen.alt;
    insert.disabled = false;
  };
  const load = async () => {
    const answer = await fetch(`/pictures/choose?q=${encodeURIComponent(query.value)}`, { headers: { "HX-Request": "true" } }).catch(() => null);
    choices.innerHTML = answer?.ok ? await answer.text() : "";
  };
  const add = async (files) => {
    if (!files.length) return;
    state.textContent = `Uploading ${files[0].name}…`;
    try {
      const uploaded = await uploadPicture(files[0]);
      state.textContent = `${files[0].name} uploaded.`;
      query.value = "";
      await load();
      const button = [...choices.querySelectorAll("button")].find((each) => each.dataset.url === uploaded.url);
      if (button) { choose(button); altField.focus(); }
    } catch (problem) {
      state.textContent = problem.message;
    }
  };
  const stop = new AbortController(), on = (target, type, act) => target.addEventListener(type, act, { signal: stop.signal });
  on(choices, "click", (event) => { const button = event.target.closest("button"); if (button) choose(button); });
  on(part("picture-upload"), "click", () => part("picture-file").click());
  on(part("picture-file"), "change", (event) => { const files = [...event.target.files]; event.target.value = ""; add(files); });
  on(dialog, "paste", (event) => { const files = picturesIn(event.clipboardData); if (files.length) { event.preventDefault(); add(files); } });
  on(dialog, "dragover", (event) => { if (event.dataTransfer.types.includes("Files")) event.preventDefault(); });
  on(dialog, "drop", (event) => { event.preventDefault(); add(picturesIn(event.dataTransfer)); });
  on(query, "input", () => { clearTimeout(timer); timer = setTimeout(load, 200); });

  [query.value, altField.value, altField.dataset.filled, state.textContent, insert.disabled] = ["", alt, "", "", true];
  choices.replaceChildren();
  load();
  const isSure = await ask(dialog);
  stop.abort();
  return isSure && chosen ? { ...chosen, alt: altField.value.trim() } : null;
}

// — Templates —

export function offerTemplates(select) {
  const dialog = part("template-dialog");
  for (const button of document.querySelectorAll("[data-open-templates]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      for (const place of dialog.querySelectorAll("[data-preview]:empty")) {
        const frame = document.createElement("iframe");
        [frame.src, frame.title, frame.tabIndex, frame.loading] = [place.dataset.preview, "", -1, "lazy"];
        frame.setAttribute("sandbox", "");
        frame.setAttribute("aria-hidden", "true");
        place.append(frame);
      }
      for (const each of dialog.querySelectorAll("[data-template]")) each.setAttribute("aria-pressed", String(each.dataset.template === select.value));
      dialog.showModal();
    });
  }
  dialog.addEventListener("click", (event) => {
    const choice = event.target.closest("[data-template]");
    if (!choice) return;
    select.value = choice.dataset.template;
    select.dispatchEvent(new Event("input", { bubbles: true }));
    dialog.close();
  });
}
