"""The journal of a sender, and what its successor reads in it."""

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

from postroom.domain.audience.addresses import Address
from postroom.sender.journal.journal import Journal, dead_journals
from postroom.transport.contract import Result, ResultKind

ANN, BOB = Address("ann@example.com"), Address("bob@example.com")
PAGE = "2026-11-15,638987654321000000,000042"


def test_the_journal_of_a_running_sender_is_left_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "me")
    journal.page_taken(PAGE, "7", "receipt", f"{PAGE},0")
    assert list(dead_journals(tmp_path)) == []
    journal.page_ended(PAGE)
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_is_unlinked_before_it_is_locked_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "me.1.journal"
    file = os.open(path, os.O_CREAT | os.O_RDWR)  # somebody looks before its owner has locked it
    fcntl.flock(file, fcntl.LOCK_EX)
    made: list[Journal] = []
    owner = threading.Thread(target=lambda: made.append(Journal(tmp_path, "me")), daemon=True)
    owner.start()
    path.unlink()
    os.close(file)
    owner.join(60)
    [journal] = made
    journal.page_taken(PAGE, "7", "receipt", f"{PAGE},0")
    assert path.exists()
    assert list(dead_journals(tmp_path)) == []
    journal.close()
    [dead] = dead_journals(tmp_path)
    assert list(dead.open_pages()) == [PAGE]
    dead.leave()


def test_a_page_that_could_not_be_settled_is_left_to_the_next_sender(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "me")
    journal.page_taken(PAGE, "7", "receipt", f"{PAGE},0")
    journal.close()
    [dead] = dead_journals(tmp_path)
    assert list(dead.open_pages()) == [PAGE]
    dead.leave()


def test_a_killed_senders_pages_can_be_read(tmp_path: Path) -> None:
    program = f"""
        import os, signal
        from pathlib import Path
        from postroom.sender.journal.journal import Journal
        from postroom.transport.contract import Result, ResultKind

        journal = Journal(Path({str(tmp_path)!r}), "dead")
        journal.page_taken("done", "1", "r", "done,0")
        journal.sending("done", ["ann@example.com"]).handing_over(0)
        journal.page_taken({PAGE!r}, "7", "old", "{PAGE},0")
        journal.page_renewed({PAGE!r}, "new")
        names = ("ann", "cy", "bob")
        sending = journal.sending({PAGE!r}, [name + "@example.com" for name in names])
        sending.handing_over(0)
        sending.settled(0, Result(ResultKind.ACCEPTED, "250 ok\\ttab"))
        sending.handing_over(2)
        journal.page_ended("done")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=60)
    assert done.returncode == -signal.SIGKILL

    [dead] = dead_journals(tmp_path)

    assert dead.owner == "dead"
    [(page, state)] = dead.open_pages().items()
    assert page == PAGE
    assert (state.item_id, state.receipt, state.item_body) == ("7", "new", f"{PAGE},0")
    assert state.handed_over == {ANN, BOB}
    assert state.results == {ANN: Result(ResultKind.ACCEPTED, "250 ok tab")}
    assert list(dead_journals(tmp_path)) == []  # we have it
    dead.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_line_without_its_end_does_not_count(tmp_path: Path) -> None:
    text = f"P\t{PAGE}\t7\tr\t{PAGE},0\nA\t{PAGE}\tHH\t{ANN}\t{BOB}\nS\t{PAGE}\t1\taccep"
    (tmp_path / "dead.1.journal").write_bytes(text.encode() + bytes(100))
    [dead] = dead_journals(tmp_path)
    state = dead.open_pages()[PAGE]
    assert state.handed_over == {ANN, BOB}
    assert state.results == {}
    dead.leave()


def test_a_page_that_is_claimed_again_starts_over(tmp_path: Path) -> None:
    taken, sent = f"P\t{PAGE}\t7\tr\t{PAGE},0", f"A\t{PAGE}\tH-\t{ANN}\t{BOB}"
    lines = [taken, sent, f"S\t{PAGE}\t0\tdeferred\t451", taken, sent, ""]
    (tmp_path / "dead.1.journal").write_text("\n".join(lines))
    [dead] = dead_journals(tmp_path)
    state = dead.open_pages()[PAGE]
    assert (state.handed_over, state.results) == ({ANN}, {})
    dead.leave()


def test_each_email_has_its_own_result(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "me")
    journal.page_taken(PAGE, "7", "receipt", f"{PAGE},0")
    addresses = [Address(f"{n}é@example.com") for n in range(100)]
    sending = journal.sending(PAGE, addresses)
    results = {
        address: Result(
            *(
                (ResultKind.REFUSED, f"550 no {n}")
                if n % 7 == 0
                else (ResultKind.ACCEPTED, "250 ok")
            )
        )
        for n, address in enumerate(addresses)
    }
    for n, address in enumerate(addresses):
        sending.handing_over(n)
        sending.settled(n, results[address])
    journal.close()
    [dead] = dead_journals(tmp_path)
    state = dead.open_pages()[PAGE]
    assert state.handed_over == set(addresses)
    assert state.results == results
    dead.leave()


def test_results_in_a_journal_of_the_first_version_still_count(tmp_path: Path) -> None:
    lines = [f"P\t{PAGE}\t7\tr\t{PAGE},0", f"A\t{PAGE}\tHH\t{ANN}\t{BOB}"]
    lines += [f"S\t{PAGE}\t1\taccepted\t250 ok", ""]
    (tmp_path / "dead.1.journal").write_text("\n".join(lines))
    [dead] = dead_journals(tmp_path)
    state = dead.open_pages()[PAGE]
    assert state.handed_over == {ANN, BOB}
    assert state.results == {BOB: Result(ResultKind.ACCEPTED, "250 ok")}
    dead.leave()


def test_emails_without_a_reply_are_known(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "me")
    journal.page_taken(PAGE, "7", "receipt", f"{PAGE},0")
    sending = journal.sending(PAGE, [Address(f"{n}é@example.com") for n in range(5)])
    assert sending.unanswered() == []
    refused, accepted = (
        Result(ResultKind.REFUSED, "550 no"),
        Result(ResultKind.ACCEPTED, "250"),
    )
    sending.settled(0, refused)  # without having been handed over
    for position in (1, 3, 4):
        sending.handing_over(position)
    sending.settled(3, accepted)
    assert sending.results == [refused, None, None, accepted, None]
    assert sending.unanswered() == [1, 4]
    journal.page_ended(PAGE)
    journal.close()


def test_long_work_goes_into_further_files_that_are_removed_when_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "me")
    replies = [Result(ResultKind.ACCEPTED, f"250 {n} " + "x" * 490) for n in range(100)]
    pages = [f"{PAGE[:-6]}{number:06}" for number in range(300)]
    for number, page in enumerate(pages):
        journal.page_taken(page, "7", "r", f"{page},0")
        sending = journal.sending(page, [ANN] * 100)
        for position in range(100):
            sending.handing_over(position)
            sending.settled(position, replies[position])
        if number:
            journal.page_ended(pages[number - 1])
        assert len(os.listdir(tmp_path)) <= 2
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2 * 8 * 1024 * 1024
    journal.page_ended(pages[-1])
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_is_taken_again_keeps_what_was_handed_over_before(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "me")
    journal.page_taken(PAGE, "7", "receipt", f"{PAGE},0")
    first = journal.sending(PAGE, [ANN, BOB])
    first.handing_over(0)
    first.settled(0, Result(ResultKind.ACCEPTED, "250 ok"))
    first.handing_over(1)
    journal.page_taken(PAGE, "7", "another receipt", f"{PAGE},0")
    journal.close()

    [dead] = dead_journals(tmp_path)
    page = dead.open_pages()[PAGE]
    dead.leave()
    assert page.receipt == "another receipt"
    assert page.handed_over == {ANN, BOB}
    assert set(page.results) == {ANN}
