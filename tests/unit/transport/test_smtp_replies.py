"""What a server's words mean: for the recipient, for now, or for us."""

import pytest

from postroom.transport.contract import FaultScope, Result, ResultKind, same_reply_key
from postroom.transport.smtp.replies import Reply, SmtpStage, parse_reply
from postroom.transport.smtp.reply_meaning import judge
from postroom.transport.smtp.reply_table import RULES
from postroom.transport.smtp.rules.worded_rules import LAST

ACCEPTED, REFUSED, DEFERRED = ResultKind.ACCEPTED, ResultKind.REFUSED, ResultKind.DEFERRED
HELD, IN_DOUBT = ResultKind.HELD, ResultKind.IN_DOUBT
SESSION = (SmtpStage.CONNECT, SmtpStage.EHLO, SmtpStage.STARTTLS, SmtpStage.AUTH)
NAMED = (SmtpStage.RCPT, SmtpStage.DATA, SmtpStage.CONTENT)


def reply(text: str) -> Reply:
    found = parse_reply(text.encode().split(b"\r\n"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "code", "status", "shown"),
    [
        ("250 2.1.5 Ok", 250, "2.1.5", "250 2.1.5 Ok"),
        ("250 Ok", 250, "", "250 Ok"),
        ("250", 250, "", "250"),
        ("550 5.7.515 Access denied", 550, "5.7.515", "550 5.7.515 Access denied"),
        ("550-5.1.1 No such\r\n550 5.1.1 user", 550, "5.1.1", "550 5.1.1 No such user"),
        ("550-No such\r\n550 user", 550, "", "550 No such user"),
        ("550 5.1.1000 x", 550, "", "550 5.1.1000 x"),
        ("550 192.0.2.1 is bad", 550, "", "550 192.0.2.1 is bad"),
        ("550 a\tb\x00c", 550, "", "550 a b c"),
        ("550 5.1.1 Käse", 550, "5.1.1", "550 5.1.1 Käse"),
    ],
)
def test_a_reply_is_read(text: str, code: int, status: str, shown: str) -> None:
    found = reply(text)

    assert (found.code, found.status, found.text) == (code, status, shown)


@pytest.mark.parametrize("text", ["", "hello", "25 Ok", "2500 Ok", "99 x", "150 x", "650 x", "25x"])
def test_what_is_not_a_reply_is_not_taken_for_one(text: str) -> None:
    assert parse_reply([text.encode()]) is None


def test_bytes_that_are_not_utf8_do_no_harm() -> None:
    found = parse_reply([b"550 \xff\xfe"])

    assert found is not None
    assert found.text == "550 ��"


def test_a_long_text_is_cut() -> None:
    assert len(reply("550 " + "x" * 5000).text) == 500


@pytest.mark.parametrize("stage", list(SmtpStage))
def test_2xx_accepts_only_the_mail_itself(stage: SmtpStage) -> None:
    kind = judge(stage, reply("250 2.0.0 Ok")).kind

    assert kind is (ACCEPTED if stage is SmtpStage.CONTENT else HELD)


@pytest.mark.parametrize("stage", list(SmtpStage))
def test_an_unexpected_reply_leaves_only_the_email_in_doubt(stage: SmtpStage) -> None:
    result = judge(stage, reply("354 go on"))

    assert result.kind is (IN_DOUBT if stage is SmtpStage.CONTENT else HELD)
    assert "354 go on" in result.reply


@pytest.mark.parametrize(
    "text",
    ["550 5.1.1 unknown", "501 bad sender", "554 5.7.1 policy", "500 x", "450 4.2.0 x", "451 x"],
)
@pytest.mark.parametrize("stage", [*SESSION, SmtpStage.MAIL])
def test_what_is_said_before_a_recipient_is_named_is_about_the_account(
    text: str, stage: SmtpStage
) -> None:
    result = judge(stage, reply(text))

    assert (result.kind, result.scope) == (HELD, FaultScope.ACCOUNT)
    assert result.reason


@pytest.mark.parametrize("stage", NAMED)
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("550 5.7.1 You are not allowed to write to this group", REFUSED),
        ("500 5.3.0 Error: command failed", REFUSED),
        ("550 5.7.0 Computer says no", REFUSED),
        ("554 5.7.1 <a@b.example>: Recipient address rejected: Quota exceeded", REFUSED),
        ("451 4.3.0 later", DEFERRED),
        ("421 4.4.2 timeout", DEFERRED),
        ("503 5.5.1 need MAIL first", DEFERRED),
    ],
)
def test_an_unknown_reply_concerns_its_recipient_and_has_no_reason(
    text: str, kind: ResultKind, stage: SmtpStage
) -> None:
    result = judge(stage, reply(text))

    assert (result.kind, result.reason) == (kind, "")
    assert result.is_unknown_refusal is (kind is REFUSED)


@pytest.mark.parametrize(
    ("text", "kind", "scope"),
    [
        # Postfix, reject_unverified_recipient: what the provider told it.
        (
            "550 5.1.1 <a@b.example>: Recipient address rejected: undeliverable address: host"
            " mx.b.example[192.0.2.1] said: 550 5.7.1 blocked using zen.spamhaus.org (in reply to"
            " RCPT TO command)",
            HELD,
            FaultScope.PROVIDER,
        ),
        (
            "450 4.1.1 <a@b.example>: Recipient address rejected: unverified address: host"
            " mx.b.example[192.0.2.1] said: 554 5.7.1 Relay access denied",
            HELD,
            FaultScope.PROVIDER,
        ),
        (
            "550 5.1.1 <a@b.example>: Recipient address rejected: undeliverable address: host"
            " mx.b.example[192.0.2.1] said: 550-5.1.1 no such user",
            REFUSED,
            FaultScope.RECIPIENT,
        ),
        (
            "450 4.1.1 <a@b.example>: Recipient address rejected: unverified address: host"
            " mx.b.example[192.0.2.1] said: 550 5.1.1 no such user",
            DEFERRED,
            FaultScope.RECIPIENT,
        ),
    ],
)
def test_what_a_provider_said_stops_nobody_elsewhere(
    text: str, kind: ResultKind, scope: FaultScope
) -> None:
    result = judge(SmtpStage.RCPT, reply(text))

    assert (result.kind, result.scope) == (kind, scope)
    assert result.reply == text
    assert result.reason


def test_every_rule_says_where_it_was_seen_and_has_a_reason_for_people() -> None:
    for each in RULES:
        assert each.seen
        if each in LAST:  # a refusal stays unknown, and stops nobody else
            assert (each.reason, each.scope) == ("", FaultScope.RECIPIENT)
            continue
        assert each.reason[0].isupper()
        assert not each.reason.endswith(".")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "554 5.7.1 <bob@example.com>: Relay access denied",
            "554 5.7.1 <alice@other.example>: Relay access denied",
        ),
        (
            "550 5.7.0 Blocked for user 17 at 2026-11-15T23:40:00Z (qid 4XyZ12abc)",
            "550 5.7.0 blocked for user 18 at 2026-11-15T23:40:01Z (qid 4XyZ13abd)",
        ),
        ("550 Host 192.0.2.1 refused", "550 host 2001:db8::1 refused"),
        ("550 no route to example.com", "550 no route to mx.other-example.co.uk"),
        ("550 see https://help.example.com/?id=abc", "550 see https://help.example.com/?id=def"),
        ("550  two   spaces", "550 two spaces"),
    ],
)
def test_replies_that_differ_in_numbers_and_addresses_are_the_same(one: str, other: str) -> None:
    assert same_reply_key(one) == same_reply_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("550 5.1.1 no", "550 5.7.1 no"),
        ("550 no", "554 no"),
        ("550 5.7.0 user unknown", "550 5.7.0 sender unknown"),
        ("550 denied.", "550 refused."),
        ("550", "551"),
    ],
)
def test_replies_with_other_words_or_codes_are_different(one: str, other: str) -> None:
    assert same_reply_key(one) != same_reply_key(other)


def test_a_reply_without_words_has_a_key() -> None:
    assert same_reply_key("550") == "550"
    assert same_reply_key("") == ""


def test_only_a_refusal_without_a_reason_is_unknown() -> None:
    assert Result(REFUSED, "550 no").is_unknown_refusal
    assert not Result(REFUSED, "550 no", reason="The mailbox does not exist").is_unknown_refusal
    assert not Result(DEFERRED, "450 no").is_unknown_refusal
