"""Hits of one visitor: whatever their number, they are judged together, and little is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.hits import OPENED, Hit, HitBatch, HitCause, judged
from postroom.domain.messages.refs import new_ref
from postroom.services.audience.results import hit_counting
from postroom.services.audience.results.engagement import Engagement
from postroom.services.audience.results.hit_counting import HitCounter

REF = new_ref()
START = 1_800_000_000.0
MANY = 20_000


def clicks(times: Sequence[float], links: Sequence[int]) -> list[Hit]:
    return [
        Hit(REF, links[place % len(links)], START + at, "somebody", HitCause.PERSON)
        for place, at in enumerate(times)
    ]


def batches_of(hits: Sequence[Hit]) -> Iterator[HitBatch]:
    for start in range(0, len(hits), 400):
        yield HitBatch(str(start), tuple(hits[start : start + 400]))


def total_of(counter: HitCounter, hits: Sequence[Hit]) -> Engagement:
    total = Engagement()
    for batch in batches_of(hits):
        total += counter.sums(batch)[REF]
    return total


@pytest.fixture
def judgements(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many hits were looked at each time."""
    found: list[int] = []

    def noted(hits: Sequence[Hit]) -> HitCause:
        found.append(len(hits))
        return judged(hits)

    monkeypatch.setattr(hit_counting, "judged", noted)
    return found


@pytest.mark.parametrize("is_program", [True, False], ids=["program", "person"])
def test_many_hits_of_one_visitor_are_judged_once_by_the_first_of_them(
    judgements: list[int], is_program: bool
) -> None:
    hits = clicks([each / 1000 for each in range(MANY)], [1, 2, 3] if is_program else [1])
    counter = HitCounter()
    for batch in batches_of(hits):
        counter.note(batch)
    total = total_of(counter, hits)
    assert judgements == [50]
    assert (total.clicked_by_programs, total.clicked, total.links) == (
        (MANY, 0, {}) if is_program else (0, 1, {1: 1})
    )


def test_the_cause_outlives_the_hits_that_decided_while_others_wait() -> None:
    hits = clicks([each / 1000 for each in range(50)], [1, 2, 3])
    later = clicks([100.0, 110.0], [1])
    counter = HitCounter()
    counter.note(HitBatch("all", (*hits, *later)))
    assert total_of(counter, hits).clicked_by_programs == 50
    counter.forget(START + 150)
    assert total_of(counter, later).clicked_by_programs == 2
    counter.forget(START + 300)
    assert total_of(counter, later).clicked == 1


def test_the_trap_decides_however_many_hits_came_before() -> None:
    hits = [*clicks([each * 1.5 for each in range(60)], [1, 2, 3, 4]), *clicks([90.0], [0])]
    counter = HitCounter()
    counter.note(HitBatch("all", tuple(hits)))
    total = total_of(counter, hits)
    assert (total.clicked, total.clicked_by_programs) == (0, 60)


def test_a_visit_lasts_as_long_as_half_an_hour_passes_between_no_two_hits() -> None:
    counter, opened = HitCounter(), []
    for minutes in (0, 5, 29, 58, 89):
        hit = Hit(REF, OPENED, START + minutes * 60, "somebody", HitCause.PERSON)
        batch = HitBatch(str(minutes), (hit,))
        counter.note(batch)
        counter.forget(hit.at + 60)
        opened.append(counter.sums(batch)[REF].opened)
        counter.forget(hit.at + 61)
    assert opened == [1, 0, 0, 0, 1]


def test_hits_are_bounded_as_well_as_visitors(
    judgements: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hit_counting, "_MOST_REMEMBERED", 20)
    hits = clicks([0.0] * 30, [1])
    counter = HitCounter()
    counter.note(HitBatch("all", tuple(hits)))
    counter.forget(START)
    total_of(counter, hits[:1])
    assert judgements == [1], "only the hit itself is known"


def test_a_scanner_with_many_addresses_is_recognised_by_the_personal_links_it_opens() -> None:
    """Its hits count as automated, with its picture; those of the owner a moment later, and those
    of others at the same time, do not."""

    def hit(number: int, at: float, visitor: str, guid: str | None = "ann") -> Hit:
        owner = None if guid is None else SubscriberGuid(guid)
        return Hit(REF, number, START + at, visitor, HitCause.PERSON, owner)

    scanner = [hit(OPENED, 0.0, "s0"), *(hit(each, each * 0.5, f"s{each}") for each in (1, 2, 3))]
    trapped = [hit(1, 60.0, "t1"), hit(0, 61.0, "t2")]
    people = [
        *(hit(OPENED, 10.0, "home"), hit(2, 12.0, "home"), hit(3, 12.5, "home")),
        *(hit(each, each * 0.5, f"b{each}", "ben") for each in (1, 2)),
        *(hit(each, each * 0.5, f"n{each}", None) for each in (1, 2, 3)),
    ]
    counter = HitCounter()
    counter.note(HitBatch("later", (*people, *trapped)))
    counter.note(HitBatch("first", tuple(reversed(scanner))))
    total = counter.sums(HitBatch("first", (*scanner, *trapped)))[REF]
    assert (total.opened_by_programs, total.clicked_by_programs) == (1, 3 + 1)
    assert (total.opened, total.clicked) == (0, 0)
    assert counter.people(HitBatch("first", (*scanner, *trapped))) == {}
    total = counter.sums(HitBatch("later", tuple(people)))[REF]
    assert (total.opened, total.clicked, total.clicked_by_programs) == (1, 1 + 2 + 3, 0)
    found = counter.people(HitBatch("later", tuple(people)))[REF]
    assert {guid: person.links for guid, person in found.items()} == {"ann": {2, 3}, "ben": {1, 2}}
    counter.forget(START + 300)
    assert not counter._personal


def test_the_trap_counts_however_often_personal_links_were_opened_before() -> None:
    guid = SubscriberGuid("ann")
    hits = [
        Hit(REF, number, START + at, f"v{at}", HitCause.PERSON, guid)
        for number, at in (*((1, each / 2) for each in range(60)), (0, 40.0), (1, 41.0), (1, 50.0))
    ]
    counter = HitCounter()
    counter.note(HitBatch("all", tuple(hits)))
    assert counter.sums(HitBatch("all", tuple(hits)))[REF].clicked_by_programs == 1


@pytest.mark.parametrize(
    ("times", "links", "cause"),
    [
        ([0.0, 1.0, 2.0], [1, 2, 3], HitCause.PROGRAM),
        ([2.0, 0.0, 1.0], [1, 2, 3], HitCause.PROGRAM),
        ([0.0, 1.0, 2.1], [1, 2, 3], HitCause.PERSON),
        ([0.0, 0.1, 0.2, 0.3], [1, 2], HitCause.PERSON),
        ([0.0, 5.0, 6.0, 6.5, 7.0], [1, 2, 3, 2, 4], HitCause.PROGRAM),
        ([0.0, 1.5, 3.0, 4.5, 6.0], [1, 2, 3, 4, 5], HitCause.PERSON),
        ([0.0, 1.9, 2.5, 3.8], [1, 2, 1, 3], HitCause.PROGRAM),
    ],
)
def test_three_links_within_two_seconds_are_a_burst(
    times: list[float], links: list[int], cause: HitCause
) -> None:
    assert judged(clicks(times, links)) is cause
