// The proof of work of a sign-up form: the widget, its worker and its texts.
import "./vendor/altcha.min.js";

const widget = document.querySelector("altcha-widget");
const worker = new URL("./vendor/altcha.pbkdf2.js", import.meta.url);
$altcha.algorithms.set("PBKDF2/SHA-256", () => new Worker(worker));
$altcha.i18n.set(widget.getAttribute("language"), {
  ...$altcha.i18n.get("en"),
  ...JSON.parse(widget.dataset.texts),
});
