"use strict";
// Growth charts: the values of a chart's points under the pointer or by arrow keys.
(() => {
  const number = (value) => value.toLocaleString("en");
  const locale = navigator.language.startsWith("en") ? navigator.language : "en-GB";
  // A day's number is that of its end in UTC, so it is shown as that day; hours are local.
  const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", timeZone: "UTC" });
  const time = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

  function label(data, index) {
    const [at, subscribers, confirmed] = data.points[index];
    const isLast = index === data.points.length - 1;
    const when = isLast ? "Now" : data.by_hour ? time.format(at * 1000) : day.format((at - 1) * 1000);
    return `${when}: ${number(subscribers)}, ${number(confirmed)} confirmed`;
  }

  function show(figure, index) {
    const data = JSON.parse(figure.dataset.chart);
    const points = data.points, first = points[0][0], span = points[points.length - 1][0] - first || 1;
    const [at, subscribers] = points[index];
    const x = 100 * (at - first) / span, y = 100 * (data.high - subscribers) / (data.high - data.low);
    const point = figure.querySelector(".point"), value = figure.querySelector(".value");
    point.style.left = value.style.left = `${x}%`;
    point.style.top = `${y}%`;
    value.textContent = label(data, index);
    value.dataset.side = x > 50 ? "left" : "right";
    point.hidden = value.hidden = false;
    figure.dataset.index = index;
  }

  function hide(figure) {
    figure.querySelector(".point").hidden = figure.querySelector(".value").hidden = true;
    delete figure.dataset.index;
  }

  function nearest(figure, x) {
    const points = JSON.parse(figure.dataset.chart).points;
    const at = points[0][0] + x * (points[points.length - 1][0] - points[0][0]);
    let best = 0;
    points.forEach((point, index) => { if (Math.abs(point[0] - at) < Math.abs(points[best][0] - at)) best = index; });
    return best;
  }

  // On the document: the chart is replaced from time to time.
  document.addEventListener("pointermove", (event) => {
    const curve = event.target.closest(".chart .curve");
    if (!curve) return;
    const box = curve.getBoundingClientRect(), figure = curve.closest(".chart");
    show(figure, nearest(figure, (event.clientX - box.left) / box.width));
  });
  document.addEventListener("pointerout", (event) => {
    const curve = event.target.closest(".chart .curve");
    if (curve && !curve.contains(event.relatedTarget)) hide(curve.closest(".chart"));
  });
  document.addEventListener("keydown", (event) => {
    const figure = event.target.closest(".chart .curve")?.closest(".chart");
    if (!figure) return;
    const last = JSON.parse(figure.dataset.chart).points.length - 1;
    const now = Number(figure.dataset.index ?? last);
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") hide(figure);
    if (next === undefined) return;
    event.preventDefault();
    show(figure, Math.min(last, Math.max(0, next)));
    figure.querySelector("[data-said]").textContent = figure.querySelector(".value").textContent;
  });
  document.addEventListener("focusout", (event) => {
    const curve = event.target.closest(".chart .curve");
    if (curve) hide(curve.closest(".chart"));
  });
})();
