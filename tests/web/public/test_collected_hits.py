"""Hits survive the web server that collected them, and count once."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from postroom import clock
from postroom.domain.messages.tracking import Track
from postroom.mail.tracking.tracking_tokens import TrackedLink
from postroom.storage import Store
from postroom.web.background import Background
from postroom.web.hit_collector import HitCollector
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.web.public.test_tracked_links import FIREFOX, batches, count_all, people, queued
from tests.web.site import Site

__all__ = ["people"]

pytestmark = pytest.mark.usefixtures("people")
VISITORS = 900  # three batches


def collector_of(store: Store, folder: Path) -> HitCollector:
    return HitCollector(store, Background(), folder)


def kill(collector: HitCollector) -> None:
    """Let go of its files, as the system does for a killed process."""
    for each in (*collector._waiting, collector._collecting):
        each.leave()
    if collector._flushing is not None:
        collector._flushing.cancel()


def note_visitors(collector: HitCollector, link: TrackedLink) -> None:
    for number in range(VISITORS):
        collector.note(link, 1, f"192.0.2.{number}", FIREFOX)


async def test_hits_of_a_web_server_that_is_killed_while_it_queues_them_count_once(
    site: Site, tmp_path: Path
) -> None:
    services, folder = site.services, tmp_path / "hits"
    link = TrackedLink((await queued(services, Track.AGGREGATE)).ref, None)

    async def attempt(fate: Fate, writes: int) -> None:
        killed = collector_of(Fated(services.store, fate), folder)
        note_visitors(killed, link)
        await dies(killed.flush())
        kill(killed)
        successor = collector_of(services.store, folder)
        successor.recover()
        await successor.flush()
        kill(successor)
        assert list(folder.iterdir()) == []
        await count_all(services)
        found = await services.engagement.of_message(link.ref)
        assert (found.clicked, found.links) == (VISITORS * (writes + 1), {1: found.clicked})

    assert await cut_after_each_write(attempt) == 3


async def test_hits_count_once_even_if_the_next_web_server_starts_hours_after_the_kill(
    site: Site, tmp_path: Path
) -> None:
    services, folder = site.services, tmp_path / "hits"
    link = TrackedLink((await queued(services, Track.AGGREGATE)).ref, None)

    async def forget_batches() -> None:
        await services.engagement.forget_batches(link.ref, clock.now() + timedelta(seconds=1))

    async def attempt(fate: Fate, writes: int) -> None:
        killed = collector_of(Fated(services.store, Fate(0)), folder)
        note_visitors(killed, link)
        await dies(killed.flush())
        kill(killed)
        for store in (Fated(services.store, fate), services.store):
            successor = collector_of(store, folder)
            successor.recover()
            await dies(successor.flush())
            kill(successor)
            await count_all(services)
            await forget_batches()
        assert list(folder.iterdir()) == []
        found = await services.engagement.of_message(link.ref)
        assert found.clicked == VISITORS * (writes + 1)

    assert await cut_after_each_write(attempt) == 3


async def test_the_file_is_removed_with_the_last_batch_and_a_line_without_an_end_is_left_out(
    site: Site, tmp_path: Path
) -> None:
    link = TrackedLink((await queued(site.services, Track.AGGREGATE)).ref, None)
    killed = collector_of(site.services.store, tmp_path / "hits")
    note_visitors(killed, link)
    [file] = (tmp_path / "hits").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    kill(killed)
    file.write_bytes(file.read_bytes()[:-10])
    successor = collector_of(site.services.store, tmp_path / "hits")
    successor.recover()
    await successor.flush()
    kill(successor)
    assert sum(len(each.hits) for each in await batches(site.services.store)) == VISITORS - 1
    assert not file.exists()


async def test_a_live_web_server_keeps_its_hits(site: Site, tmp_path: Path) -> None:
    link = TrackedLink((await queued(site.services, Track.AGGREGATE)).ref, None)
    live, other = (collector_of(site.services.store, tmp_path / "hits") for _ in range(2))
    note_visitors(live, link)
    other.recover()
    await other.flush()
    assert await batches(site.services.store) == []
    await live.flush()
    assert sum(len(each.hits) for each in await batches(site.services.store)) == VISITORS
    kill(live)
    kill(other)


async def test_without_space_for_the_file_hits_still_count(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hits").write_text("in the way")
    link = TrackedLink((await queued(site.services, Track.AGGREGATE)).ref, None)
    collector = collector_of(site.services.store, tmp_path / "hits")
    with caplog.at_level(logging.WARNING):
        note_visitors(collector, link)
    assert caplog.text.count("hits are lost if this web server is killed now") == 1
    await collector.flush()
    kill(collector)
    assert sum(len(each.hits) for each in await batches(site.services.store)) == VISITORS
