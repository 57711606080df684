"""Messages on the command line: scheduled, sent by `postroom up`, watched and traced."""

import email
import email.policy
import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.services.mail.recording_smtp import RecordingSmtp, running_recording_smtp
from tests.services.postroom import PROGRAM, CommandLine
from tests.services.waiting import BUSY, free_ports

FAR = "2099-01-01T09:00+09:00"


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    made = CommandLine(tmp_path)
    made.ok("list", "create", "news", "--description", "The news", "--from", "news@contoso.com")
    (tmp_path / "body.htm").write_text("<p>Hello {{ email }}</p>")
    (tmp_path / "body.txt").write_text("Hello {{ email }}")
    return made


@pytest.fixture
def server() -> Iterator[RecordingSmtp]:
    with running_recording_smtp() as running:
        yield running


def create(cli: CommandLine, *more: str) -> str:
    made = cli.json("message", "create", "news", "--subject", "Hi", "--html", "body.htm", *more)
    return str(made["ref"])


def start_up(cli: CommandLine) -> subprocess.Popen[bytes]:
    """On its own port: others may run at the same time."""
    return cli.start("up", "--port", str(free_ports(1)[0]))


def test_a_message_is_scheduled_shown_changed_and_deleted(cli: CommandLine) -> None:
    made = cli.json(
        "message", "create", "news", "--subject", "Hi", "--html", "body.htm", "--at", FAR
    )
    assert made["counts"] == dict.fromkeys(
        ("planned", "pending", "accepted", "refused", "suppressed", "in_doubt",
         "possible_duplicates", "deferred"), 0
    )  # fmt: skip
    ref = made["ref"]
    assert (made["has_html"], made["has_text"]) == (True, True)  # made of the HTML
    assert (made["status"], made["scheduled_at"]) == ("Pending", "2099-01-01T00:00:00.000Z")
    cli.ok("message", "edit", ref, "--subject", "Hello", "--text", "body.txt")
    shown = cli.json("message", "show", ref)
    assert (shown["subject"], shown["has_html"], shown["has_text"]) == ("Hello", True, True)
    cli.ok("message", "edit", ref, "--attach", "body.txt")
    changed = cli.json("message", "edit", ref, "--attach", "body.htm", "--attach", "body.txt")
    assert [each["name"] for each in changed["attachments"]] == ["body.htm", "body.txt"]
    for track in ("aggregate", "personal"):
        assert cli.json("message", "edit", ref, "--track", track)["track"] == track
    assert cli.json("message", "edit", ref, "--track", "list")["track"] is None
    assert cli.json("message", "edit", ref, "--canary", "2%,600s")["canary"] == "2%,10m"
    assert "must be off" in " ".join(cli.misused("message", "edit", ref, "--canary", "x").split())
    assert cli.json("message", "edit", ref, "--canary", "default")["canary"] is None
    assert cli.json("message", "edit", ref, "--local-time")["local_time"] is True
    misused = cli.misused("message", "edit", ref, "--track", "no")
    assert "must be off, aggregate, personal or list" in " ".join(misused.split())
    assert [each["ref"] for each in cli.json("message", "ls")["items"]] == [ref]
    assert "Hello" in cli.ok("message", "ls")
    for reading in ("results", "people", "preflight"):
        cli.run("message", reading, ref)
    assert cli.json("results", "--list", "news")["messages"] == []
    assert "No results yet" in cli.run("results").stderr
    assert "there is no list 'nope'" in cli.fails("results", "--list", "nope")
    audit = cli.ok("table", "show", "audit")
    assert "message edit" in audit
    assert "message results" not in audit
    assert "message preflight" not in audit
    assert cli.json("message", "delete", ref, "--yes") == {"ref": ref, "deleted": True}
    assert cli.fails("message", "show", ref) == f"there is no message '{ref}'"


def test_a_draft_is_created_tested_scheduled_and_unscheduled(cli: CommandLine) -> None:
    draft = cli.json("message", "create", "--draft", "--subject", "Hi")
    ref = str(draft["ref"])
    assert (draft["status"], draft["list"], draft["scheduled_at"]) == ("Draft", None, None)
    assert "No unfinished messages" in cli.run("message", "ls").stderr
    assert ref in cli.ok("message", "ls", "--drafts")
    failed = cli.run("message", "schedule", ref)
    assert failed.returncode == 1
    assert "list: choose the list" in failed.stderr
    cli.ok("message", "edit", ref, "--list", "news", "--html", "body.htm", "--from-name", "Ann")
    tested = cli.json("message", "test", ref, "ann@contoso.com", "bob@contoso.com")
    assert [each["outcome"] for each in tested["results"]] == ["accepted", "accepted"]
    scheduled = cli.json("message", "schedule", ref, "--at", FAR)
    assert (scheduled["status"], scheduled["from_name"]) == ("Pending", "Ann")
    assert cli.json("message", "unschedule", ref)["status"] == "Draft"
    copy = cli.json("message", "duplicate", ref)
    assert (copy["status"], copy["subject"]) == ("Draft", "Hi")
    early = cli.fails("message", "follow-up", ref, "--subject", "Again")
    assert early == f"the message {ref} is Draft: wait until it is sent"
    cli.ok("message", "delete", ref, "--yes")
    wrong = cli.run("message", "create", "--subject", "Hi")
    assert wrong.returncode == 2
    assert "LIST is missing" in wrong.stderr


def test_a_time_without_a_zone_is_local(cli: CommandLine) -> None:
    local = CommandLine(cli.folder, {"TZ": "Asia/Tokyo"})
    assert local.json("message", "show", create(local, "--at", "2099-01-01T09:00"))[
        "scheduled_at"
    ] == ("2099-01-01T00:00:00.000Z")


def test_a_local_time_that_clocks_skip_is_refused(cli: CommandLine) -> None:
    local = CommandLine(cli.folder, {"TZ": "Europe/Paris"})
    to = ("message", "create", "news", "--subject", "Hi", "--text", "body.txt", "--at")
    printed = " ".join(local.misused(*to, "2099-03-29T02:30").split())
    assert "2099-03-29T02:30 does not exist in this machine's time zone" in printed
    assert "clocks are put forward then" in printed
    assert local.json("message", "ls")["items"] == []
    for fine in ("2099-03-29T03:00", "2099-03-29T02:30+01:00"):
        assert local.json(*to, fine)["scheduled_at"].startswith("2099-03-29T01:")


def test_a_past_time_is_allowed_and_it_says_that_it_is_sent_now(cli: CommandLine) -> None:
    printed = cli.ok(
        "message", "create", "news", "--subject", "Hi", "--text", "body.txt",
        "--at", "2020-01-01T00:00Z",
    )  # fmt: skip
    assert "2020-01-01 00:00:00 UTC has passed: sending starts now." in printed
    now = cli.ok("message", "create", "news", "--subject", "Hi", "--text", "body.txt")
    assert "has passed" not in now
    past = cli.json(
        "message", "create", "news", "--subject", "Hi", "--text", "body.txt",
        "--at", "2020-01-01T00:00Z",
    )  # fmt: skip
    assert past["note"] == "the time has passed: sending starts now"


def test_mistakes_with_messages_are_one_line_and_leave_nothing(cli: CommandLine) -> None:
    (cli.folder / "unknown.htm").write_text("<p>\nDear {{ name }}</p>")
    (cli.folder / "large.htm").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    (cli.folder / "empty.txt").write_text("")
    to = ("message", "create", "news", "--subject", "Hi")
    assert cli.fails("message", "create", "nope", *to[3:], "--text", "body.txt") == (
        "there is no list 'nope'"
    )
    assert "needs an HTML body, a text body, or both" in cli.fails(*to)
    assert "needs an HTML body, a text body, or both" in cli.fails(*to, "--text", "empty.txt")
    (cli.folder / "blank.txt").write_text("  \n")
    (cli.folder / "blank.htm").write_text("<p>&nbsp;</p>\n")
    assert cli.fails(*to, "--text", "blank.txt") == (
        "text: is blank: write something, or leave it out"
    )
    assert cli.fails(*to, "--html", "blank.htm", "--text", "body.txt").startswith(
        "html: has neither text nor pictures"
    )
    line = cli.fails(*to, "--html", "unknown.htm")
    assert line.startswith("html: line 2, column 6: there is no merge field {{ name }}")
    assert cli.fails(*to, "--html", "large.htm").startswith("html: must be at most 10 MB")
    hostile = ("message", "create", "news", "--subject", "Hi\r\nBcc: a@b.org", "--text", "body.txt")
    assert cli.fails(*hostile).startswith("subject: contains a character")
    assert cli.fails("message", "show", "12") == "ref: must have 18 digits"
    assert cli.json("message", "ls")["items"] == []
    assert cli.json("blob", "ls", "mailbodies")["items"] == []


def test_a_list_with_a_message_cannot_be_deleted(cli: CommandLine) -> None:
    ref = create(cli, "--at", FAR)
    assert f"while its message {ref} is Pending" in cli.fails("list", "delete", "news", "--yes")


def test_pause_resume_and_cancel(cli: CommandLine) -> None:
    ref = create(cli, "--at", FAR)
    paused = cli.json("message", "pause", ref, "--reason", "wait for the lawyer")
    assert (paused["status"], paused["reason"]) == ("Paused", "wait for the lawyer")
    assert "wait for the lawyer" in cli.ok("message", "show", ref)
    assert cli.json("message", "edit", ref, "--subject", "New")["subject"] == "New"
    assert "is not waiting for a hold" in cli.fails("message", "try-now", ref)
    assert cli.json("message", "resume", ref)["status"] == "Pending"
    assert cli.json("message", "cancel", ref, "--yes")["status"] == "Cancelled"
    assert "Cancelled" in cli.fails("message", "resume", ref)
    assert "cannot be edited" in cli.fails("message", "edit", ref, "--subject", "New")


def test_a_message_is_sent_watched_listed_and_traced(
    cli: CommandLine, server: RecordingSmtp
) -> None:
    rows = "".join(f"user{number:03}@example.org,{number > 4}\n" for number in range(255))
    cli.ok("subscriber", "import", "news", "-", stdin=f"email,verified\n{rows}".encode())
    cli.ok("subscriber", "edit", "news", "user254@example.org", "--block", "bounced")
    cli.ok("list", "edit", "news", "--language", "de", "--postal-address", "Hafenweg 1\nKiel")
    sending = CommandLine(cli.folder, {"POSTROOM_TRANSPORT": server.url})
    with start_up(sending) as up:
        ref = create(cli)
        watched = [
            json.loads(line)
            for line in cli.ok("message", "show", ref, "--watch", "--json").splitlines()
        ]
        up.send_signal(signal.SIGTERM)
        up.communicate(timeout=30 * BUSY)
    for each in watched:
        counts = each["counts"]
        assert counts["planned"] == sum(
            counts[part] for part in ("pending", "accepted", "refused", "suppressed", "in_doubt")
        )
    assert watched[-1]["status"] == "Completed"
    accepted = watched[-1]["counts"]["accepted"]
    assert accepted == 249
    mail = email.message_from_bytes(server.accepted()[0].content, policy=email.policy.default)
    for kind, lines in (("plain", "Hafenweg 1\nKiel"), ("html", "Hafenweg 1<br>\nKiel")):
        body = mail.get_body((kind,))
        assert body is not None
        assert "Abmelden" in body.get_content(), "the footer is in the list's language"
        assert lines in body.get_content().replace("\r\n", "\n")

    emails = cli.json("message", "emails", ref, "--outcome", "accepted", "--limit", "2")
    assert [each["email"] for each in emails["items"]] == [
        "user005@example.org",
        "user006@example.org",
    ]
    rest = cli.json("message", "emails", ref, "--outcome", "accepted", "--after", emails["next"])
    assert (len(rest["items"]), rest["next"]) == (accepted - 2, None)
    one = cli.json("message", "email", ref, "user005@example.org")
    assert (one["outcome"], one["tries"]) == ("accepted", 1)
    assert one["reply"].startswith("250")
    line = cli.fails("message", "decide", ref, "user005@example.org", "--sent")
    assert line == f"the message {ref} is Completed"
    assert "no email of this message to 'user000@example.org'" in cli.fails(
        "message", "email", ref, "user000@example.org"
    )
    assert [each["ref"] for each in cli.json("message", "ls", "--done")["items"]] == [ref]
    plain = cli.ok("message", "show", ref)
    assert "249 planned" in plain
    assert cli.ok("message", "show", ref, "--watch").startswith("Completed: 249 = 249 accepted")

    trace = cli.json("trace", "user005@EXAMPLE.org")
    assert [each["list"] for each in trace["lists"]] == ["news"]
    assert [(each["ref"], each["outcome"]) for each in trace["messages"]] == [(ref, "accepted")]
    assert one["reply"] in cli.ok("trace", "user005@example.org")


def test_trace_shows_lists_and_messages_newest_first(cli: CommandLine) -> None:
    cli.ok("list", "create", "other", "--description", "Other", "--from", "a@contoso.com")
    for name in ("news", "other"):
        cli.ok("subscriber", "add", name, "ann@example.org", "--verified")
    with start_up(cli) as up:
        refs = [create(cli) for _ in range(2)]
        wait_until_done(cli, refs)
        stop(up)
    newest = cli.json("message", "ls", "--done", "--limit", "1")
    older = cli.json("message", "ls", "--done", "--after", newest["next"])
    assert [each["ref"] for each in newest["items"] + older["items"]] == refs[::-1]
    trace = cli.json("trace", "ann@example.org")
    assert [each["list"] for each in trace["lists"]] == ["news", "other"]
    assert [each["ref"] for each in trace["messages"]] == refs[::-1]
    nobody = cli.ok("trace", "nobody@example.org")
    assert "nobody@example.org is not on any list." in nobody
    assert "No emails to this address." in nobody


def wait_until_done(cli: CommandLine, refs: list[str]) -> None:
    deadline = time.monotonic() + 30 * BUSY
    while {each["ref"] for each in cli.json("message", "ls", "--done")["items"]} != set(refs):
        assert time.monotonic() < deadline, datetime.now(UTC)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30 * BUSY)
    assert process.returncode == 0
    assert b"\nStopped.\n" in said


def test_a_message_goes_to_a_segment_except_another_list(cli: CommandLine) -> None:
    cli.ok("list", "create", "vip", "--description", "Friends", "--from", "vip@contoso.com")
    cli.ok("segment", "create", "news", "gmail", 'email ends with "@gmail.com"')
    audience = ("--segment", "gmail", "--exclude-list", "vip")
    ref = create(cli, "--at", FAR, *audience)
    shown = cli.json("message", "show", ref)
    assert (shown["segment"], shown["exclude_lists"]) == ("gmail", ["vip"])
    assert "segment gmail, except list vip" in cli.ok("message", "show", ref)
    cli.ok("message", "edit", ref, "--segment", "", "--exclude-segment", "gmail")
    shown = cli.json("message", "show", ref)
    assert (shown["segment"], shown["exclude_segments"]) == (None, ["gmail"])
    cli.ok("message", "edit", ref, "--exclude-list", "", "--exclude-segment", "")
    assert "except" not in cli.ok("message", "show", ref)
    cli.ok("message", "edit", ref, "--also-list", "vip")
    assert cli.json("message", "show", ref)["more_lists"] == ["vip"]
    assert "everyone, plus list vip" in cli.ok("message", "show", ref)
    cli.ok("message", "edit", ref, "--also-list", "")
    assert cli.json("message", "show", ref)["more_lists"] == []
    wrong = ("message", "create", "news", "--subject", "Hi", "--html", "body.htm")
    assert cli.fails(*wrong, "--segment", "gmx") == (
        "segment: there is no segment 'gmx' of the list news"
    )


def test_the_number_of_recipients_is_asked_on_a_terminal_and_printed_otherwise(
    cli: CommandLine,
) -> None:
    to = ("message", "create", "news", "--subject", "Hi", "--html", "body.htm")
    nobody = cli.run(*to, "--at", FAR)
    assert nobody.returncode == 0
    assert "Nobody would receive it now" in nobody.stderr
    wanted = "require_recipients: nobody on news would receive this message now"
    assert wanted in cli.fails(*to, "--require-recipients")
    cli.ok("subscriber", "add", "news", "ann@example.com", "--verified")
    cli.ok("subscriber", "add", "news", "bob@example.com", "--verified")
    assert cli.run(*to).stderr.splitlines() == ["2 subscribers will receive it."]
    later = cli.run(*to, "--at", FAR, "--json")
    assert later.stderr.splitlines() == ["2 subscribers would receive it now."]
    assert json.loads(later.stdout)["status"] == "Pending"

    before = len(cli.json("message", "ls")["items"])
    assert on_a_terminal(cli, "n", *to) == (1, "Send to 2 subscribers of news now?")
    assert len(cli.json("message", "ls")["items"]) == before
    assert on_a_terminal(cli, "y", *to) == (0, "Send to 2 subscribers of news now?")
    draft = cli.json(
        "message", "create", "news", "--draft", "--subject", "Hi", "--html", "body.htm"
    )
    status, question = on_a_terminal(cli, "n", "message", "schedule", draft["ref"], "--at", FAR)
    assert (status, question.partition(" at ")[0]) == (1, "Send to 2 subscribers of news")
    cli.ok("message", "schedule", draft["ref"], "--yes", "--require-recipients")
    assert len(cli.json("message", "ls")["items"]) == before + 2


def on_a_terminal(cli: CommandLine, answer: str, *arguments: str) -> tuple[int, str]:
    """Run a command whose standard input is a terminal; return its status and its question."""
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, f"{answer}\n".encode())
        done = subprocess.run(
            [PROGRAM, *arguments],
            cwd=cli.folder,
            env={**os.environ, **cli.environment},
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=60 * BUSY,
        )
    finally:
        os.close(keyboard)
        os.close(terminal)
    return done.returncode, done.stderr.partition("?")[0] + "?"


def test_an_ab_test_is_prepared_started_and_cancelled(cli: CommandLine) -> None:
    ref = cli.json(
        "message", "create", "news", "--draft", "--subject", "Hi", "--text", "body.txt"
    )["ref"]  # fmt: skip
    missing = cli.fails("message", "ab-test", "show", ref)
    assert missing == f"there is no A/B test of the message '{ref}'"
    prepared = cli.json("message", "ab-test", "add", ref, "--subject", "Ho")
    assert [each["subject"] for each in prepared["variants"]] == ["Hi", "Ho"]
    assert "variant C" in cli.ok("message", "ab-test", "add", ref, "--from-name", "Ann")
    assert "is a variant of an A/B test" in cli.fails("message", "schedule", ref)
    assert "must be a duration" in cli.misused("message", "ab-test", "start", ref, "--wait", "x")
    assert cli.fails("message", "ab-test", "start", ref, "--share", "1").startswith("share: must")
    how = ("--share", "30", "--wait", "2h", "--at", FAR)
    started = cli.json("message", "ab-test", "start", ref, *how)
    assert (started["state"], started["share"], started["wait_minutes"]) == ("starting", 30, 120)
    shown = cli.ok("message", "ab-test", "show", ref)
    assert re.search(r"wait +2h", shown)
    assert "Ho" in shown
    early = cli.fails("message", "ab-test", "winner", ref, "B")
    assert "this is possible while it is running" in early
    cli.ok("message", "ab-test", "cancel", ref, "--yes")
    assert cli.json("message", "ab-test", "show", ref)["state"] == "cancelling"
