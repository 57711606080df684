"""What a sender has sent lately, and what its successor reads of it."""

import time
from pathlib import Path

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.pages import WorkItem
from postroom.domain.messages.refs import MessageRef
from postroom.sender.journal.sent_log import SentLog, dead_sent_logs
from postroom.storage import Server

ANN, BOB = Address("ann@example.com"), Address("bob@example.com")
ITEM = WorkItem("2026-11-15", MessageRef("638987654321000000"), 42)
OLD, NEW = (
    Server("system 1, timeline 1", "1700000000.5"),
    Server("system 1, timeline 2", "1800000000"),
)


def test_files_of_running_senders_are_left_alone(tmp_path: Path) -> None:
    log = SentLog(tmp_path, "me")
    log.add(OLD, ITEM, [ANN])
    assert list(dead_sent_logs(tmp_path)) == []
    log.close()


def test_a_successor_reads_what_was_sent_and_which_server_has_the_records(tmp_path: Path) -> None:
    log = SentLog(tmp_path, "me")
    log.add(OLD, ITEM, [ANN])
    log.add(NEW, ITEM, [BOB])
    log.close()
    found = list(dead_sent_logs(tmp_path))
    assert [(dead.owner, dead.server) for dead in found] == [("me", OLD), ("me", NEW)]
    assert [list(dead.pages()) for dead in found] == [[(ITEM, {ANN})], [(ITEM, {BOB})]]
    for dead in found:
        dead.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_a_full_disk_has_cut_does_not_count(tmp_path: Path) -> None:
    log = SentLog(tmp_path, "me")
    log.add(OLD, ITEM, [ANN])
    log.add(OLD, ITEM, [BOB])
    log.close()
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-5])
    [dead] = dead_sent_logs(tmp_path)
    assert list(dead.pages()) == [(ITEM, {ANN})]
    dead.leave()


def test_files_are_kept_for_a_minute_after_their_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    log = SentLog(tmp_path, "me")
    log.add(OLD, ITEM, [ANN])
    now += 31
    log.add(OLD, ITEM, [BOB])
    assert len(list(tmp_path.iterdir())) == 2
    now += 58
    log.prune()
    assert len(list(tmp_path.iterdir())) == 2
    now += 2
    log.prune()
    assert [path.name for path in tmp_path.iterdir()] == ["me.2.sent"]
    log.close()
