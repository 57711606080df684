"use strict";
// Live figures of a message: the server sends them once per second while the message is being sent.
(() => {
  const part = document.getElementById("progress");
  if (!part || !part.dataset.events) return;
  const WIDTH = 1000, POINTS = 600, LOST_AFTER = 8000;
  const order = ["accepted", "refused", "suppressed", "in_doubt", "pending"];
  const find = (name) => part.querySelector(name);
  const number = (value) => value.toLocaleString("en");
  const times = [], rates = [];
  // As in times.js: the visitor's conventions if those are English, too.
  const locale = navigator.language.startsWith("en") ? navigator.language : "en-GB";
  const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  let plot = null;

  function percent(counts) {
    if (!counts.planned) return "0%";
    const share = 100 * (counts.planned - counts.pending) / counts.planned;
    return share === 0 || share === 100 ? `${share}%` : `${Math.min(Math.max(share, 0.1), 99.9).toFixed(1)}%`;
  }

  function show(state) {
    let x = 0;
    for (const name of order) {
      const width = state.counts.planned ? WIDTH * state.counts[name] / state.counts.planned : 0;
      const segment = find(`[data-segment="${name}"]`);
      segment.setAttribute("x", x.toFixed(2));
      segment.setAttribute("width", width.toFixed(2));
      x += width;
    }
    for (const cell of part.querySelectorAll("[data-count]")) {
      cell.textContent = number(state.counts[cell.dataset.count]);
    }
    find("[data-percent]").textContent = percent(state.counts);
    find("[data-rate]").textContent = state.rate === null ? "" : ` · ${number(Math.round(state.rate))}/s`;
    find("[data-left]").textContent = state.left ? ` · ${state.left} left` : "";
  }

  function draw(rate) {
    times.push(Date.now() / 1000);
    rates.push(rate);
    if (times.length > POINTS) { times.shift(); rates.shift(); }
    if (times.length < 3 || typeof uPlot === "undefined") return;
    const box = find("[data-plot]");
    if (plot) { plot.setData([times, rates]); return; }
    box.hidden = false;
    const style = getComputedStyle(document.documentElement);
    const line = style.getPropertyValue("--plot-1").trim(), soft = style.getPropertyValue("--ink-soft").trim();
    const axis = { stroke: soft, grid: { stroke: style.getPropertyValue("--line").trim(), width: 1 }, ticks: { show: false } };
    plot = new uPlot({
      width: box.clientWidth, height: 180, legend: { show: false }, cursor: { show: false },
      scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: [{ ...axis, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300], space: 90, values: (_, moments) => moments.map((at) => clock.format(at * 1000)) }, { ...axis, size: 64 }],
      series: [{}, { stroke: line, width: 2, points: { show: false } }],
    }, [times, rates], box);
    window.addEventListener("resize", () => plot.setSize({ width: box.clientWidth, height: 180 }));
  }

  function reload() {
    source.close();
    document.dispatchEvent(new Event("postroom:reload"));
  }

  const source = new EventSource(part.dataset.events);
  source.addEventListener("progress", (event) => {
    const state = JSON.parse(event.data);
    show(state);
    if (state.rate !== null && state.status !== "Pending") draw(state.rate);
    // Another status has different buttons.
    if (state.status !== part.dataset.status) reload();
  });
  source.addEventListener("end", reload);
  // A stream ends regularly and restarts immediately, so only a longer interruption is reported.
  let missing = 0;
  source.addEventListener("error", () => {
    missing ||= setTimeout(() => document.dispatchEvent(new Event("postroom:lost")), LOST_AFTER);
  });
  source.addEventListener("open", () => {
    clearTimeout(missing);
    missing = 0;
    document.dispatchEvent(new Event("postroom:found"));
  });
  window.addEventListener("pagehide", () => source.close());
})();
