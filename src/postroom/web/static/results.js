"use strict";
// The charts of results: opens and clicks by hour in the viewer's time zone, and rates by message.
// Without this script, the server's drawing of the hours stays.
(() => {
  if (typeof uPlot === "undefined") return;
  const HEIGHT = 200;
  const locale = navigator.language.startsWith("en") ? navigator.language : "en-GB";
  const hour = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Registered properties are read as rgb(…).
  const tint = (opaque) => opaque.replace("rgb(", "rgba(").replace(")", ", .1)");
  const number = (value) => (value === null || value === undefined ? "" : value.toLocaleString("en"));

  function axes(moments, values) {
    const axis = { stroke: colour("--ink-soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return [{ ...axis, grid: { show: false }, size: 30, space: 110, values: moments }, { ...axis, size: 48, ...(values ? { values } : {}) }];
  }

  // `options` is called again when the theme changes.
  function draw(box, options, columns) {
    box.hidden = false;
    const size = () => ({ width: box.clientWidth, height: HEIGHT });
    let plot = new uPlot({ ...size(), ...options() }, columns, box);
    new ResizeObserver(() => plot.setSize(size())).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      plot.destroy();
      plot = new uPlot({ ...size(), ...options() }, columns, box);
    });
  }

  for (const figure of document.querySelectorAll("[data-hours]")) {
    const { columns, compared } = JSON.parse(figure.dataset.hours);
    const line = (label, stroke, more) => ({ label, stroke, width: 2, points: { show: false }, value: (_, shown) => number(shown), ...more });
    const series = () => [
      { label: "Hour", value: (_, at) => (at === null ? "" : hour.format(at * 1000)) },
      line("Opened", colour("--plot-1"), { fill: tint(colour("--plot-1")) }),
      line("Clicked", colour("--plot-2")),
      ...(compared ? [line(`Opened, median of your last ${compared === 10 ? "ten" : compared}`, colour("--plot-6"), { width: 1, dash: [5, 4] })] : []),
    ];
    draw(figure.querySelector(".plot"), () => ({
      padding: [null, 56, null, null],
      scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: axes((_, moments) => moments.map((at) => hour.format(at * 1000))),
      series: series(),
    }), columns.slice(0, compared ? 4 : 3));
    figure.classList.add("drawn");
  }

  const LABELS = { opened: "Opened", clicked: "Clicked", bounced: "Bounced", unsubscribed: "Unsubscribed", complained: "Marked as spam" };
  const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });
  const percent = (value) => (value === null || value === undefined ? "" : `${value.toFixed(value < 1 ? 2 : 1)}%`);

  for (const charts of document.querySelectorAll("[data-rates]")) {
    const found = JSON.parse(charts.dataset.rates);
    for (const box of charts.querySelectorAll("[data-shown]")) {
      const shown = box.dataset.shown.split(" ").filter((name) => found[name].some((value) => value !== null));
      if (!shown.length) continue;
      const series = () => shown.map((name, place) => ({ label: LABELS[name], stroke: colour(`--plot-${place + 1}`), width: 2, spanGaps: true, points: { size: 5 }, value: (_, value) => percent(value) }));
      draw(box, () => ({
        padding: [null, 20, null, null],
        scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 0.1)] } },
        axes: axes((_, moments) => moments.map((at) => day.format(at * 1000)), (_, values) => values.map((value) => `${+value.toFixed(2)}%`)),
        series: [{ label: "Message", value: (_, at, __, index) => (index === null || index === undefined ? "" : `${day.format(at * 1000)}, ${found.subjects[index]}`) }, ...series()],
      }), [found.times, ...shown.map((name) => found[name])]);
    }
  }
})();

// The hours of the week, which the server draws in UTC, in the viewer's time zone of today.
(() => {
  const week = document.querySelector("[data-week]");
  if (!week) return;
  const HOURS = 168, weekdays = week.dataset.weekdays.split(" ");
  const cells = [...week.querySelectorAll("rect")];
  const counts = cells.map((cell) => Number(cell.dataset.opened)), highest = Math.max(...counts);
  const offset = Math.round(-new Date().getTimezoneOffset() / 60);
  cells.forEach((cell, place) => {
    const opened = counts[(place - offset + HOURS) % HOURS];
    cell.setAttribute("fill-opacity", (opened / highest).toFixed(3));
    cell.querySelector("title").textContent = `${weekdays[Math.floor(place / 24)]} ${String(place % 24).padStart(2, "0")}:00: ${opened.toLocaleString("en")} opened`;
  });
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  document.querySelector("[data-zone]").textContent = `When people opened these messages, by weekday and hour in your time zone (${zone}).`;
})();
