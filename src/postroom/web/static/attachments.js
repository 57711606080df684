"use strict";
// Files that are attached to a message: uploaded immediately, listed in a field of the form, and
// saved with it.
(() => {
  const form = document.getElementById("message");
  const box = form?.querySelector(".attachments");
  if (!box) return;
  const field = form.elements.attachments, list = box.querySelector("[data-files]");
  const problem = box.querySelector("[data-problem]"), input = box.querySelector("[data-attach]");
  const read = () => (field.value ? JSON.parse(field.value) : []);
  const shown = (size) => (size < 1e6 ? `${Math.ceil(size / 1e3)} KB` : `${(size / 1e6).toFixed(1)} MB`);

  function write(files) {
    field.value = files.length ? JSON.stringify(files) : "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function say(text) {
    problem.textContent = text;
    problem.hidden = !text;
  }

  function show() {
    list.replaceChildren(...read().map((file) => {
      const item = document.createElement("li"), name = document.createElement("span");
      const remove = document.createElement("button");
      name.textContent = `${file.name} (${shown(file.size)})`;
      remove.type = "button";
      remove.className = "quiet";
      remove.textContent = "Remove";
      remove.setAttribute("aria-label", `Remove ${file.name}`);
      remove.addEventListener("click", () => {
        write(read().filter((each) => each.name !== file.name));
        input.focus();
      });
      item.append(name, remove);
      return item;
    }));
  }

  field.addEventListener("input", show); // even when text that was kept in this browser is restored

  input.addEventListener("change", async () => {
    const [file] = input.files;
    if (!file) return;
    say("");
    const data = new FormData();
    data.append("csrf", form.elements.csrf.value);
    data.append("file", file, file.name);
    let answer = null;
    try {
      answer = await fetch(`/messages/${form.elements.ref.value}/attachments`, { method: "POST", body: data, headers: { "HX-Request": "true" } });
    } catch {
      say("The file could not be uploaded. Try again.");
      return;
    } finally {
      input.value = "";
    }
    if (answer.ok) {
      const { attachment } = await answer.json();
      write([...read().filter((each) => each.name !== attachment.name), attachment]);
    } else {
      say(answer.status === 422 ? await answer.text() : answer.status === 413 ? "The file is too large: at most 10 MB in total." : "The file could not be uploaded. Try again.");
    }
  });
  show();
})();
