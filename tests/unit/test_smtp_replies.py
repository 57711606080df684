"""What a server's words mean: for the recipient, for now, or for us."""

import pytest

from postroom.transport.contract import Result, ResultKind
from postroom.transport.replies import RULES, Reply, Stage, judge, parse_reply, same_reply_key

ACCEPTED, REFUSED, DEFERRED = ResultKind.ACCEPTED, ResultKind.REFUSED, ResultKind.DEFERRED
HELD, IN_DOUBT = ResultKind.HELD, ResultKind.IN_DOUBT
SESSION = (Stage.CONNECT, Stage.EHLO, Stage.STARTTLS, Stage.AUTH)


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
def test_what_is_no_reply_is_not_taken_for_one(text: str) -> None:
    assert parse_reply([text.encode()]) is None


def test_bytes_that_are_no_utf8_do_no_harm() -> None:
    found = parse_reply([b"550 \xff\xfe"])

    assert found is not None
    assert found.text == "550 ��"


def test_a_long_text_is_cut() -> None:
    assert len(reply("550 " + "x" * 5000).text) == 500


@pytest.mark.parametrize("stage", list(Stage))
def test_2xx_accepts_only_the_mail_itself(stage: Stage) -> None:
    kind = judge(stage, reply("250 2.0.0 Ok")).kind

    assert kind is (ACCEPTED if stage is Stage.CONTENT else DEFERRED)


@pytest.mark.parametrize("stage", list(Stage))
def test_an_unexpected_reply_leaves_only_the_mail_in_doubt(stage: Stage) -> None:
    result = judge(stage, reply("354 go on"))

    assert result.kind is (IN_DOUBT if stage is Stage.CONTENT else DEFERRED)
    assert "354 go on" in result.reply


@pytest.mark.parametrize(
    "text",
    [
        "550 5.1.1 <a@b.c>: Recipient address rejected: User unknown",
        "550 5.1.1 The email account that you tried to reach does not exist",
        "550 user unknown",
        "551 user not local",
        "552 5.2.2 mailbox full",
        "553 5.1.3 bad address syntax",
        "554 5.2.1 mailbox disabled",
        "500 5.3.0 Error: command failed",
        "550 5.7.1 You are not allowed to write to this group",
        "550 5.7.133 Sender not authenticated for group",
        "554 5.7.1 <a@b.c>: Recipient address rejected: Access denied",
        "550 5.7.504 Recipient address rejected: Access denied",
        "550 5.7.513 Service unavailable, Client host [192.0.2.1] blocked by b.c using Block list",
        "556 5.1.10 Recipient address has null MX",
        "550 5.1.1 mailbox blocked using our own rules",
    ],
)
@pytest.mark.parametrize("stage", [Stage.RCPT, Stage.CONTENT])
def test_a_permanent_refusal_of_the_recipient_refuses_this_recipient(
    text: str, stage: Stage
) -> None:
    result = judge(stage, reply(text))

    assert result.kind is REFUSED
    assert result.reply == text


@pytest.mark.parametrize(
    "text",
    [
        "450 4.2.1 mailbox busy",
        "451 4.3.0 try later",
        "452 4.2.2 over quota",
        "421 4.3.2 shutting down",
        "450 4.2.0 Greylisted, see https://postgrey.example",
        "451 4.7.1 Greylisting in action, please come back in 00:05:00",
        "450 4.7.1 <a@b.c>: Recipient address rejected: Greylisted",
        "451 4.7.1 Try again later",
        "421 4.7.0 mx.example Error: too many errors",
        "421 4.7.0 mx.example Error: too many connections from 192.0.2.1",
        "503 5.5.1 need MAIL first",
    ],
)
@pytest.mark.parametrize("stage", [Stage.RCPT, Stage.DATA, Stage.CONTENT])
def test_what_may_change_is_deferred(text: str, stage: Stage) -> None:
    assert judge(stage, reply(text)).kind is DEFERRED


@pytest.mark.parametrize(
    "text",
    [
        "530 5.7.0 Must issue a STARTTLS command first",
        "535 5.7.8 Authentication credentials invalid",
        "534 5.7.9 Authentication mechanism is too weak",
        "538 5.7.11 Encryption required",
        "530 Authentication required",
        "550 5.7.26 This mail is unauthenticated",
        "550 5.7.515 Access denied, sending domain does not meet the authentication level",
        "550 5.7.23 SPF validation failed",
        "550 5.7.25 PTR record missing",
        "550 5.7.1 Service unavailable; client [192.0.2.1] blocked using zen.spamhaus.org",
        "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using bl.example",
        "554 blocked using dnsbl.example",
        "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent: our block list (S3150)",
        "550-5.7.1 Our system has detected that this message is\r\n550 5.7.1 likely unsolicited",
        "554 5.7.1 Message rejected as spam",
        "554 5.7.1 <a@b.c>: Relay access denied",
        "554 5.7.1 <x[192.0.2.1]>: Client host rejected: Access denied",
        "504 5.5.2 <localhost>: Helo command rejected: need fully-qualified hostname",
        "550 5.1.8 <a@b.c>: Sender address rejected: Domain not found",
        "450 4.1.8 <a@b.c>: Sender address rejected: Domain not found",
        "450 4.7.1 Client host rejected: cannot find your hostname",
        "550 5.7.606 Access denied, banned sending IP [192.0.2.1]",
        "451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited",
        "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred",
        "421 4.7.28 Our system has detected an unusual rate of mail",
        "421-4.7.0 IP not in whitelist\r\n421 4.7.0 contact us",
        "451 4.7.24 The SPF record is suspicious",
        "450 4.7.1 rejected for policy reasons",
    ],
)
@pytest.mark.parametrize("stage", [Stage.MAIL, Stage.RCPT, Stage.CONTENT])
def test_what_blames_the_sender_never_marks_a_recipient(text: str, stage: Stage) -> None:
    result = judge(stage, reply(text))

    assert result.kind is HELD
    assert result.reply == reply(text).text


@pytest.mark.parametrize(
    "text", ["550 5.1.1 unknown", "501 bad sender", "554 5.7.1 policy", "500 x"]
)
def test_every_5xx_to_mail_is_about_the_sender(text: str) -> None:
    assert judge(Stage.MAIL, reply(text)).kind is HELD


@pytest.mark.parametrize("text", ["554 no service here", "521 no mail", "550 5.7.1 blocked"])
@pytest.mark.parametrize("stage", SESSION)
def test_every_5xx_before_a_mail_is_about_us(text: str, stage: Stage) -> None:
    assert judge(stage, reply(text)).kind is HELD


@pytest.mark.parametrize(
    ("stage", "text", "kind"),
    [
        (Stage.CONNECT, "421 4.3.2 busy", DEFERRED),
        (Stage.CONNECT, "421 too many concurrent SMTP connections", DEFERRED),
        (Stage.CONNECT, "421 4.7.0 your reputation is bad", HELD),
        (Stage.AUTH, "454 4.7.0 Temporary authentication failure", DEFERRED),
        (Stage.AUTH, "432 4.7.12 A password transition is needed", HELD),
        (Stage.STARTTLS, "454 4.7.0 TLS not available", DEFERRED),
        (Stage.MAIL, "451 4.3.0 try later", DEFERRED),
        (Stage.MAIL, "452 4.3.1 no space", DEFERRED),
        (Stage.RCPT, "450 4.7.1 not authorized yet", DEFERRED),
        (Stage.CONTENT, "451 4.7.1 not authorized yet", HELD),
    ],
)
def test_the_stage_matters(stage: Stage, text: str, kind: ResultKind) -> None:
    assert judge(stage, reply(text)).kind is kind


def test_every_rule_names_its_source() -> None:
    assert all(rule.source for rule in RULES)


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
