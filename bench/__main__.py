"""Run benchmarks: `make bench` for all, `make bench ARGS=mail` for one.

Each figure is compared with a baseline from the same run, measured in turns where possible: ratios
carry over to other machines, absolute figures do not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from bench import figures, plots
from bench.effort import FULL, QUICK
from bench.figures import Figure
from bench.listmonk.program import VERSION, Skipped
from bench.parts import ON_REQUEST, PARTS, REMARKS, SUMMARY, TARGETS, Options


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    effort = QUICK if parsed.quick else replace(FULL, turns=parsed.turns)
    options = Options(effort, parsed.listmonk)
    known = PARTS | ON_REQUEST
    chosen = TARGETS if SUMMARY in parsed.parts else parsed.parts or list(PARTS)
    reports: dict[str, dict[str, list[Figure]]] = {}
    for name in chosen:
        part = known[name]
        try:
            found = part.measure(options)
        except Skipped as reason:
            print(f"{part.title}: skipped. {reason}")
            continue
        figures.show(part.title, found)
        reports.setdefault(part.report, {})[part.title] = found
    measured = [f for sections in reports.values() for found in sections.values() for f in found]
    with_target = [figure for figure in measured if figure.is_met is not None]
    if len(chosen) > 1:
        figures.show("Summary: figures with a target", with_target)
    if not parsed.quick:
        _keep(reports)
        if chosen == TARGETS:
            figures.keep(SUMMARY, {"Figures with a target": with_target}, REMARKS[SUMMARY])
    missed = [figure for figure in with_target if not figure.is_met]
    for figure in missed:
        print(f"target missed: {figure.what}")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(
        f"  {name:12} {part.title}" + ("" if name in PARTS else " (only when named)")
        for name, part in (PARTS | ON_REQUEST).items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Postroom, each figure next to a baseline from the same run.",
        epilog=f"parts:\n{listed}\n  {SUMMARY:12} Everything in bench/results/{SUMMARY}.md",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        choices=[*PARTS, *ON_REQUEST, SUMMARY, []],
        help="what to measure; without any, all parts",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes, measured once, to check that the benchmarks work; results are not kept",
    )
    parser.add_argument(
        "--turns",
        type=_turns,
        default=FULL.turns,
        metavar="N",
        help="how often what is compared takes turns; more turns give steadier medians (default:"
        " %(default)s)",
    )
    parser.add_argument(
        "--listmonk",
        default=VERSION,
        metavar="VERSION",
        help="the version, commit or pseudo-version of listmonk to compare with (default:"
        " %(default)s)",
    )
    return parser


def _turns(text: str) -> int:
    turns = int(text) if text.isdecimal() else 0
    if turns < FULL.turns:
        raise argparse.ArgumentTypeError(f"must be {FULL.turns} or more, not {text}")
    return turns


def _keep(reports: dict[str, dict[str, list[Figure]]]) -> None:
    """Write each report that is complete into `bench/results`."""
    for report, sections in reports.items():
        whole = [part.title for part in (PARTS | ON_REQUEST).values() if part.report == report]
        if set(sections) == set(whole):
            ordered = {title: sections[title] for title in whole}
            figures.keep(report, ordered, REMARKS[report])
            if report == "growth":
                plots.plot_growth(next(iter(ordered.values())), figures.RESULTS)


if __name__ == "__main__":
    sys.exit(main())
