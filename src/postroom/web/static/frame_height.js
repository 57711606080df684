// Tells the page that frames the sign-up form how high it is. The height reveals nothing.
(() => {
  if (window.parent === window) return;
  const report = () =>
    window.parent.postMessage({ postroomHeight: document.documentElement.scrollHeight }, "*");
  new ResizeObserver(report).observe(document.body);
  report();
})();
