"""Figures, each with its baseline and its target."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """`ours` next to `baseline`; the target is on their ratio, or on `ours` itself."""

    what: str
    ours: float
    unit: str
    baseline: float | None = None
    baseline_is: str = ""
    target: float | None = None
    target_on: Literal["ratio", "value"] = "ratio"
    target_is: Literal["at least", "at most"] = "at least"
    or_value: float | None = None  # reaching this is enough, whatever the ratio

    @property
    def ratio(self) -> float | None:
        return self.ours / self.baseline if self.baseline else None

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        if self.or_value is not None and self.ours >= self.or_value:
            return True
        measured = self.ratio if self.target_on == "ratio" else self.ours
        if self.target is None or measured is None:
            return None
        return measured >= self.target if self.target_is == "at least" else measured <= self.target

    def cells(self) -> list[str]:
        baseline = ""
        if self.baseline is not None:
            baseline = f"{_number(self.baseline)} ({self.baseline_is})"
        target = ""
        if self.target is not None:
            sign = "≥" if self.target_is == "at least" else "≤"
            suffix = " ×" if self.target_on == "ratio" else f" {self.unit}"
            target = f"{sign} {_number(self.target)}{suffix}"
        if self.or_value is not None:
            target += f" or {_number(self.or_value)}"
        verdict = {True: "met", False: "MISSED", None: ""}[self.is_met]
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} ×"
        return [self.what, f"{_number(self.ours)} {self.unit}", baseline, ratio, target, verdict]


HEADINGS = ["what", "Postroom", "compared with", "ratio", "target", ""]


def show(title: str, figures: Sequence[Figure]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim")
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number in (0, 4, 5) else "right")
    for figure in figures:
        style = "red" if figure.is_met is False else None
        table.add_row(*figure.cells(), style=style)
    Console(width=max(Console().width, 110)).print(table)


def keep(name: str, sections: dict[str, list[Figure]], remark: str) -> None:
    """Write the figures for people and for programs into `bench/results`."""
    RESULTS.mkdir(exist_ok=True)
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    lines = [f"# {name}", "", remark, "", f"Measured on {machine}.", ""]
    for title, figures in sections.items():
        lines += [f"## {title}", "", f"| {' | '.join(HEADINGS)} |", "|---|--:|--:|--:|---|---|"]
        lines += [f"| {' | '.join(figure.cells())} |" for figure in figures]
        lines.append("")
    (RESULTS / f"{name}.md").write_text("\n".join(lines))
    plain = {title: [asdict(figure) for figure in figures] for title, figures in sections.items()}
    (RESULTS / f"{name}.json").write_text(json.dumps(plain, indent=1) + "\n")


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
