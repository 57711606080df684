"""Plots of figures."""

from __future__ import annotations

import re
from pathlib import Path

from bench.figures import Figure

GROWTH = "growth.svg"
_SMALLEST = 10_000


def plot_growth(found: list[Figure], folder: Path) -> None:
    """Plot rate and memory against the number of recipients: both should be flat."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "postroom"  # the same figures make the same file
    from matplotlib import pyplot

    curves = _curves(found)
    drawing, (rate, memory) = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for name, points in curves.items():
        axis = memory if name.startswith("peak memory") else rate
        xs, ys = zip(*sorted(points.items()), strict=True)
        axis.plot(xs, ys, marker="o", label=name.removeprefix("peak memory of "))
    for axis, title, unit in ((rate, "Rate", "emails per second"), (memory, "Peak memory", "MiB")):
        axis.set(title=title, xlabel="recipients", ylabel=unit, xscale="log")
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, alpha=0.3)
    memory.legend(frameon=False, loc="lower right")
    drawing.savefig(folder / GROWTH, metadata={"Date": None})
    pyplot.close(drawing)


def _curves(found: list[Figure]) -> dict[str, dict[int, float]]:
    """Return, for each measure, recipients → value. The baseline is the smallest number."""
    curves: dict[str, dict[int, float]] = {}
    for figure in found:
        match = re.fullmatch(r"([\d,]+) recipients(?:, (.+))?", figure.what)
        if match is None or figure.baseline is None:
            continue
        curve = curves.setdefault(match[2] or "whole pipeline", {_SMALLEST: figure.baseline})
        curve[int(match[1].replace(",", ""))] = figure.ours
    return curves
