// Puts the sign-up form of a list, or of several, where this script stands, in a frame that is as high as the form.
(() => {
  const script = document.currentScript;
  const source = new URL(script.src);
  const frame = document.createElement("iframe");
  const query = new URLSearchParams({ embed: "1" });
  for (const name of script.dataset.list.split(",")) query.append("list", name.trim());
  if (script.dataset.lang) query.set("lang", script.dataset.lang);
  frame.src = `${source.origin}${source.pathname.replace(/\/form\.js$/, "")}?${query}`;
  frame.title = script.dataset.title || "Sign up";
  frame.style.cssText = "width: 100%; height: 420px; border: 0";
  window.addEventListener("message", (event) => {
    const isOurs = event.source === frame.contentWindow && event.origin === source.origin;
    const height = isOurs ? Number(event.data?.postroomHeight) : 0;
    if (height > 0 && height < 10000) frame.style.height = `${Math.ceil(height)}px`;
  });
  script.after(frame);
})();
