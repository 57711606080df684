"use strict";
// Draws every element with data-plot: {"moments": [seconds], "series": [{"label", "values"}]}.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function draw(element) {
    const { moments, series } = JSON.parse(element.dataset.plot);
    const axis = {
      stroke: colour("--soft"),
      grid: { stroke: colour("--card-line"), width: 1 },
      ticks: { stroke: colour("--card-line"), width: 1 },
    };
    const number = (_, value) => (value == null ? "–" : value.toLocaleString());
    // Unless the pointer is over the plot, the legend shows the last day.
    const showLast = (plot) => plot.setLegend({ idx: moments.length - 1 });
    const options = {
      width: element.clientWidth,
      height: 260,
      cursor: { drag: { x: false, y: false } },
      hooks: {
        ready: [showLast],
        setCursor: [(plot) => { if (plot.cursor.idx == null) showLast(plot); }],
      },
      axes: [
        { ...axis, values: (_, days) => days.map(day) },
        { ...axis, size: 70, values: (_, values) => values.map((each) => each.toLocaleString()) },
      ],
      scales: { y: { range: (_, least, most) => [0, Math.max(1, most * 1.1)] } },
      series: [
        { label: "Day", value: (_, at) => (at == null ? "–" : day(at)) },
        ...series.map((each, index) => ({
          label: each.label,
          stroke: colour(`--plot-${1 + (index % 6)}`),
          width: 2,
          spanGaps: true,
          value: number,
        })),
      ],
    };
    element.replaceChildren();
    return new uPlot(options, [moments, ...series.map((each) => each.values)], element);
  }

  // Days are counted in UTC, so they are shown in UTC.
  function day(seconds) {
    const options = { month: "short", day: "numeric", timeZone: "UTC" };
    return new Date(seconds * 1000).toLocaleDateString(undefined, options);
  }

  for (const element of document.querySelectorAll("[data-plot]")) {
    let plot = draw(element);
    dark.addEventListener("change", () => { plot = draw(element); });
    new ResizeObserver(() => {
      if (element.clientWidth && element.clientWidth !== plot.width) {
        plot.setSize({ width: element.clientWidth, height: plot.height });
      }
    }).observe(element);
  }
})();
