"""What the benchmarks say is what they have measured."""

import itertools
import shutil
from collections import Counter

import pytest

from bench.__main__ import main
from bench.effort import QUICK, Effort
from bench.figures import Figure
from bench.listmonk.killing import Toll, toll
from bench.mail import content
from bench.parts import ON_REQUEST, PARTS, REMARKS, SUMMARY, TARGETS


def test_every_part_has_a_report_with_a_remark() -> None:
    parts = PARTS | ON_REQUEST
    assert {part.report for part in parts.values()} | {SUMMARY} == set(REMARKS)
    assert set(TARGETS) <= set(parts)


def test_reports_with_postgresql_say_that_it_is_durable() -> None:
    for report in ("store", "mail", "listmonk", "host", SUMMARY):
        assert "`fsync=on` and `synchronous_commit=on`" in REMARKS[report]


def test_measures_take_turns_and_the_median_counts() -> None:
    order: list[str] = []
    ours, theirs = itertools.count(1), itertools.count(10)

    def measure(name: str, values: "itertools.count[int]") -> float:
        order.append(name)
        return next(values) ** 2

    medians = Effort(turns=3).medians(
        lambda: measure("ours", ours), lambda: measure("theirs", theirs)
    )

    assert order == ["ours", "theirs"] * 3
    assert medians == [2**2, 11**2]


def test_quick_sizes_are_small_but_not_nothing() -> None:
    assert QUICK.size(100_000) == 2000
    assert QUICK.size(1000) == 100
    assert QUICK.size(5, least=1) == 1


def test_a_figure_without_anything_to_divide_by_has_no_ratio() -> None:
    none = Figure("skipped", 0, "emails", 0, "other", target=0, target_on="value",
                  target_is="at most")  # fmt: skip
    assert none.ratio is None
    assert none.is_met
    assert none.cells() == ["skipped", "0 emails", "0 (other)", "", "≤ 0 emails", "met"]


def test_a_kill_is_judged_by_every_address() -> None:
    once, twice, marked = (str(content.address(number)) for number in (0, 2, 3))
    copies = Counter({once: 1, twice: 2, marked: 3})

    assert toll(copies, 4, {marked, once}) == Toll(skipped=1, duplicated=2, marked=2, silent=1)
    with pytest.raises(AssertionError, match="strangers"):
        toll(Counter({"nobody@example.com": 1}), 4, set())


def test_without_go_the_comparison_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)

    assert main(["listmonk", "kill", "--quick", "--listmonk", "never-built"]) == 0

    assert capsys.readouterr().out.count("skipped. There is no `go` on this machine.\n") == 2


def test_an_unknown_part_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["mial"])
    assert "'mial'" in capsys.readouterr().err


@pytest.mark.parametrize("turns", ["2", "0", "-1", "many"])
def test_fewer_turns_than_usual_are_refused(turns: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([f"--turns={turns}", "mail"])
    assert f"must be 3 or more, not {turns}" in capsys.readouterr().err
