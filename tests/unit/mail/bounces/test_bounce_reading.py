"""Real bounces get the verdict that a person would give them; other mail is left alone."""

from __future__ import annotations

import tomllib
from email.message import EmailMessage
from pathlib import Path

import pytest

from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.mail.bounces.mail_kinds import MailKind
from postroom.mail.bounces.reading import read_mail
from postroom.services.audience.bounces.processing import classify
from postroom.transport.smtp.bounce_verdicts import judge_mailbox
from postroom.transport.smtp.replies import NAMED, parse_reply
from tests.unit.transport.test_mailbox_replies import DEAD, OTHERS
from tests.unit.transport.test_provider_replies import SEEN, STAGES

BOUNCES = Path(__file__).parents[3] / "fixtures" / "bounces"
FORMATS = BOUNCES.with_name("bounce_formats")
KINDS = tomllib.loads((BOUNCES / "kinds.toml").read_text())


def _kinds(name: str) -> set[str]:
    return _kinds_of((BOUNCES / f"{name}.txt").read_bytes())


def _kinds_of(mail: bytes) -> set[str]:
    return {each.verdict.kind.value for each in classify(read_mail(mail))}


@pytest.mark.parametrize("half", ["first_half", "second_half"])
def test_dead_mailboxes_are_recognised_and_others_are_not_called_dead(half: str) -> None:
    labels = {name: kind for kind, names in KINDS[half].items() for name in names.split()}
    dead = [name for name, kind in labels.items() if kind == "gone"]
    others = [name for name, kind in labels.items() if kind != "gone"]
    missed = [name for name in dead if "gone" not in _kinds(name)]
    wrong = [name for name in others if "gone" in _kinds(name)]
    assert len(missed) <= 0.07 * len(dead), missed
    assert len(wrong) <= 0.10 * len(others), wrong


@pytest.mark.parametrize("name", [path.stem for path in sorted(FORMATS.glob("*.toml"))])
def test_the_formats_of_many_mail_systems_are_understood(name: str) -> None:
    mails = tomllib.loads((FORMATS / f"{name}.toml").read_text())
    found = {key: _kinds_of(each["mail"].lstrip().encode()) for key, each in mails.items()}
    missed = [
        key for key, each in mails.items() if each["kind"] == "gone" and "gone" not in found[key]
    ]
    wrong = [key for key, each in mails.items() if each["kind"] != "gone" and "gone" in found[key]]
    assert (missed, wrong) == ([], [])
    if name.startswith("seen"):
        assert found == {key: {each["kind"]} for key, each in mails.items()}


def test_the_documented_figures_are_those_of_all_formats() -> None:
    dead, recognised, others, wrong = 0, 0, 0, 0
    for path in FORMATS.glob("*.toml"):
        for each in tomllib.loads(path.read_text()).values():
            is_called_dead = "gone" in _kinds_of(each["mail"].lstrip().encode())
            dead += each["kind"] == "gone"
            others += each["kind"] != "gone"
            recognised += each["kind"] == "gone" and is_called_dead
            wrong += each["kind"] != "gone" and is_called_dead
    text = (Path(__file__).parents[4] / "docs/guides/bounces.md").read_text()
    assert f"| {recognised} of {dead} | {wrong} of {others} |" in text


@pytest.mark.parametrize(
    "text",
    [
        "ann@example.com: 552 5.2.2 Mailbox full\nbob@example.com: 550 5.1.1 User unknown",
        '"ann@example.com":\nSMTP error after RCPT command:\nhost: mx.example\n5.2.2 Mailbox full\n'
        '"bob@example.com":\nSMTP error after RCPT command:\nhost: mx.example\n5.1.1 User unknown',
        "  ann@example.com\n    host mx.example: 552 5.2.2 Mailbox full\n"
        "  bob@example.com\n    host mx.example: 550 5.1.1 User unknown",
    ],
)
def test_each_recipient_of_a_bounce_in_plain_words_is_judged_by_its_own_reply(text: str) -> None:
    mail = EmailMessage()
    mail["From"] = "Mailer Daemon <MAILER-DAEMON@mx.example>"
    mail["Subject"] = "Mail delivery failed: returning message to sender"
    mail["X-Failed-Recipients"] = "ann@example.com, bob@example.com"
    mail.set_content(f"The message could not be delivered to:\n\n{text}\n")
    kinds = {each.address: each.verdict.kind.value for each in classify(read_mail(bytes(mail)))}
    assert kinds == {"ann@example.com": "full", "bob@example.com": "gone"}


def test_recipients_that_nothing_but_a_line_names_are_found() -> None:
    mail = EmailMessage()
    mail["From"] = "Mailer Daemon <MAILER-DAEMON@mx.example>"
    mail["Subject"] = "Delivery status notification: error"
    mail.set_content(
        "An error has occurred while attempting to deliver a message for these recipients:\n\n"
        "ann@example.com: 552 5.2.2 Mailbox full\nbob@example.com: 550 5.1.1 User unknown\n"
        "cat@example.com: 450 4.2.1 Busy\n"
    )
    kinds = {each.address: each.verdict.kind.value for each in classify(read_mail(bytes(mail)))}
    assert kinds == {
        "ann@example.com": "full",
        "bob@example.com": "gone",
        "cat@example.com": "temporary",
    }


def test_each_bounce_of_the_fixtures_has_a_label() -> None:
    labelled = [
        name for half in KINDS.values() for names in half.values() for name in names.split()
    ]
    assert sorted(labelled) == sorted(each.stem for each in BOUNCES.glob("*.txt"))


@pytest.mark.parametrize(
    ("reply", "kind", "by_code"),
    [
        ("550 5.1.1 <a@b.example>: Recipient address rejected: User unknown", "gone", True),
        ("550 5.1.10 Recipient address has null MX", "gone", True),
        ("550 No such user here", "gone", False),
        ("550 5.2.1 The email account that you tried to reach is disabled.", "gone", False),
        ("450 4.1.1 <a@b.example>: Recipient address rejected: unverified", "temporary", False),
        ("552 5.2.2 The recipient's inbox is out of storage space and inactive.", "full", False),
        ("550 5.1.1 user over quota", "full", False),
        ("550 5.1.1 Mail from 192.0.2.1 refused: listed at Spamhaus", "policy", False),
        ("550 5.7.26 This mail is unauthenticated", "policy", False),
        ("554 5.7.1 Spam message rejected", "content", False),
        ("552 5.3.4 Message size exceeds fixed limit", "content", False),
        ("421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred", "temporary", False),
        ("550 5.1.1 <a@b.example> 192.0.2.7 has sent to too many recipients", "temporary", False),
        ("552 Too many recipients", "temporary", False),
        ("550 Mailbox is frozen", "temporary", False),
        ("550 User account is temporarily suspended", "temporary", False),
        ("550 5.1.1 account suspended", "gone", True),
        ("553 5.1.3 https://www.spamhaus.org/query/bl?ip=192.0.2.7", "policy", False),
        ("550 5.1.1 No such user, see https://b.example/nouser", "gone", True),
        ("550 5.7.27 Host does not accept mail", "gone", False),
        ("554 The domain is not reachable. Please check it", "gone", False),
        ("550 SC-004 Unfortunately, messages from 192.0.2.7 weren't sent.", "policy", False),
        ("550 Unroutable sender address", "policy", False),
        ("550 domain [news.example] mismatches client ip 192.0.2.7", "policy", False),
        ("550 I do not want it", "unknown", False),
    ],
)
def test_a_reply_gets_the_same_verdict_while_sending_and_in_a_bounce(
    reply: str, kind: str, by_code: bool
) -> None:
    verdict = judge_mailbox(reply)
    assert (verdict.kind.value, verdict.by_code) == (kind, by_code)
    (in_bounce,) = classify(read_mail(_dsn(reply)))
    assert (in_bounce.verdict.kind, in_bounce.verdict.by_code) == (verdict.kind, verdict.by_code)


def test_every_known_reply_gets_the_same_verdict_while_sending_and_in_a_bounce() -> None:
    kinds, differences = set(), []
    for _, stage, _, _, text in SEEN:
        lines = text.split("↵")
        reply = parse_reply([each.encode() for each in lines])
        if reply is None or STAGES[stage] not in NAMED:
            continue  # said before a recipient is named: no bounce quotes it
        verdict = judge_mailbox(reply.text)
        kinds.add(verdict.kind)
        folded = _dsn("\n    ".join(lines))  # as Postfix does, with the reply's own status
        if reply.status:
            folded = folded.replace(f"{reply.code // 100}.0.0".encode(), reply.status.encode())
        for mail in (_dsn(reply.text), folded):
            (found,) = classify(read_mail(mail))
            if (found.verdict.kind, found.verdict.by_code) != (verdict.kind, verdict.by_code):
                differences.append((reply.text, verdict.kind.value, found.verdict.kind.value))
    assert differences == []
    assert len(kinds) > 4


def test_every_reply_about_a_mailbox_gets_the_same_verdict_in_a_bounce() -> None:
    differences = []
    for text in (*DEAD, *OTHERS):
        (found,) = classify(read_mail(_dsn(text)))
        if found.verdict.kind is not judge_mailbox(text).kind:
            differences.append((text, judge_mailbox(text).kind.value, found.verdict.kind.value))
    assert differences == []


def test_an_internationalised_report_is_read_like_any_other() -> None:
    report = _dsn("550 5.1.1 User unknown").replace(b"message/delivery", b"message/global-delivery")
    (found,) = classify(read_mail(report))
    assert (found.address, found.verdict.kind) == ("a@b.example", BounceKind.GONE)


def test_a_complaint_is_recognised_and_a_report_of_no_spam_is_not() -> None:
    for feedback, kind in (("abuse", MailKind.COMPLAINT), ("not-spam", MailKind.ORDINARY)):
        assert read_mail(_feedback(feedback)).kind is kind


@pytest.mark.parametrize(
    ("headers", "text", "kind"),
    [
        ({"Subject": "Re: Our summer sale"}, "Thanks! Could not be delivered to me.", "ordinary"),
        ({"Subject": "Undeliverable parcels: news"}, "Read on our site.", "ordinary"),
        (
            {"Subject": "Delivery status of your order", "List-Unsubscribe": "<https://x.example>"},
            "Your parcel could not be delivered.",
            "ordinary",
        ),
        ({"Subject": "Fwd: failure notice"}, "What is this? unable to deliver", "ordinary"),
        ({"Subject": "Automatic reply: News", "Auto-Submitted": "auto-replied"}, "", "auto-reply"),
        ({"Subject": "Out of Office: News"}, "I am away until Monday.", "auto-reply"),
        ({"Subject": "Abwesenheitsnotiz"}, "Ich bin wieder da am 3.", "auto-reply"),
        (
            {"Subject": "Please confirm your message"},
            "Click here to prove that you are human and not a spam robot.",
            "challenge",
        ),
    ],
)
def test_other_mail_is_not_taken_for_a_bounce(
    headers: dict[str, str], text: str, kind: str
) -> None:
    mail = EmailMessage()
    mail["From"] = "Ann <ann@example.com>"
    for name, value in headers.items():
        mail[name] = value
    mail.set_content(text)
    assert read_mail(bytes(mail)).kind.value == kind


@pytest.mark.parametrize("status", ["4.4.1", "4.2.2", "5.0.0"])
def test_a_delay_is_not_a_bounce(status: str) -> None:
    delayed = _dsn("450 4.4.1 Connection timed out").replace(b"Action: failed", b"Action: delayed")
    found = read_mail(delayed.replace(b"4.0.0", status.encode()))
    assert found.kind is MailKind.DELAY
    assert classify(found) == []


def test_a_warning_in_plain_words_is_not_a_bounce_and_giving_up_is_one() -> None:
    mail = EmailMessage()
    mail["From"] = "Mail Delivery System <MAILER-DAEMON@mx.example>"
    mail["Subject"] = "Warning: message delayed 24 hours"
    text = "A message that you sent has not yet been delivered to:\n\n  ann@example.com\n\n{}"
    mail.set_content(text.format("Delivery attempts will continue for some time."))
    assert read_mail(bytes(mail)).kind is MailKind.DELAY
    mail.set_content(text.format("It could not be delivered for 5 days, and I have given up."))
    assert read_mail(bytes(mail)).kind is MailKind.BOUNCE


def test_a_report_with_a_delay_and_a_failure_is_about_the_failure() -> None:
    both = _dsn("550 5.1.1 User unknown").replace(
        b"--b--",
        b"--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example\n\n"
        b"Final-Recipient: rfc822; b@b.example\nAction: delayed\nStatus: 4.4.1\n\n--b--",
    )
    [found] = classify(read_mail(both))
    assert (found.address, found.verdict.kind) == ("a@b.example", BounceKind.GONE)


def test_a_report_of_a_delivery_is_not_a_bounce() -> None:
    delivered = _dsn("250 OK").replace(b"Action: failed", b"Action: delivered")
    assert read_mail(delivered.replace(b"5.0.0", b"2.0.0")).kind is MailKind.ORDINARY


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe\x00",
        b"Content-Type: multipart/report; boundary=x\n\n--x",
        b"Content-Type: message/delivery-status\n\nAction: \xff\n\n\n",
        b"Content-Type: text/plain; charset=no-such\nSubject: =?bad?Q?=ff?=\n\n\xff",
    ],
)
def test_a_broken_email_is_read_and_says_nothing_about_a_mailbox(raw: bytes) -> None:
    kinds = {each.verdict.kind for each in classify(read_mail(raw))}
    assert kinds <= {BounceKind.UNKNOWN}


def test_every_kind_has_the_name_that_is_stored() -> None:
    assert [each.value for each in BounceKind] == [
        "gone",
        "full",
        "temporary",
        "policy",
        "content",
        "complaint",
        "auto_reply",
        "challenge",
        "unknown",
    ]


def _dsn(reply: str) -> bytes:
    return f"""\
From: MAILER-DAEMON@mx.example
Subject: Undelivered Mail Returned to Sender
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: text/plain

This is the mail system at host mx.example.

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example

Final-Recipient: rfc822; a@b.example
Action: failed
Status: {reply[0]}.0.0
Diagnostic-Code: smtp; {reply}

--b--
""".encode()


def _feedback(kind: str) -> bytes:
    return f"""\
From: <feedback@arf.mail.example>
Subject: FW: News
Content-Type: multipart/report; report-type=feedback-report; boundary=b

--b
Content-Type: text/plain

This is an email abuse report.

--b
Content-Type: message/feedback-report

Feedback-Type: {kind}
User-Agent: Example/1.0
Version: 1

--b
Content-Type: message/rfc822

Subject: News
Message-ID: <1@news.example>

Hello
--b--
""".encode()


def test_endless_words_and_unclosed_tags_are_read_in_linear_time() -> None:
    mail = EmailMessage()
    mail["From"] = "MAILER-DAEMON@mx.example.net"
    mail["Subject"] = "Undelivered Mail Returned to Sender"
    mail.set_content("x" * 60_000 + "\n\nann@example.com: mailbox is full\n")
    mail.add_alternative("<style " * 9_000 + "<p>full</p>", subtype="html")
    classify(read_mail(mail.as_bytes()))
    assert judge_mailbox("x" * 200_000 + " 5.1.1 no such user").kind is BounceKind.GONE
