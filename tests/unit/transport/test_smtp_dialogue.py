"""What is said to a server, reply by reply. Nothing here has a socket."""

import pytest

from postroom.domain.audience.lists.lists import new_guid
from postroom.domain.messages.refs import new_ref
from postroom.mail.bounces.envelope_tokens import EnvelopeSigner
from postroom.mail.mailing import Recipient
from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.backlog import MOST_ATTEMPTS, Backlog, SmtpBatch
from postroom.transport.smtp.dialogue import PIECE, Dialogue
from postroom.transport.smtp.replies import Extensions
from tests.services.mail.plain_mailing import Notes, PlainMailing, recipients

ACCEPTED, REFUSED, DEFERRED = ResultKind.ACCEPTED, ResultKind.REFUSED, ResultKind.DEFERRED
HELD, IN_DOUBT = ResultKind.HELD, ResultKind.IN_DOUBT
PIPELINED, PLAIN = Extensions(pipelining=True), Extensions()
OPEN = b"250 sender\r\n250 recipient\r\n354 go\r\n"


class Talk:
    """A dialogue, and what it said. Also its channel."""

    def __init__(
        self,
        *names: str,
        extensions: Extensions = PIPELINED,
        size: int = 0,
        sender: str = "news@example.com",
        backlog: Backlog | None = None,
        mailing: PlainMailing | None = None,
    ) -> None:
        self.said = b""
        self.hung_up = self.rests = False
        self.pauses = False
        self.failures: list[Result] = []
        self.has_another_server = False
        self.notes = Notes()
        self.backlog = backlog or Backlog()
        self.mailing = mailing or PlainMailing(size, sender)
        self.batch = SmtpBatch(self.mailing, recipients(*names), self.notes)
        self.backlog.add(self.batch)
        self.dialogue = Dialogue("mx.test:25", extensions, self.backlog, self)
        self.dialogue.wake()

    def finished(self) -> bool:
        return self.batch.is_finished

    def write(self, data: bytes) -> None:
        self.said += data
        if self.pauses:
            self.dialogue.paused()

    def disconnect(self) -> None:
        self.hung_up = True

    def rest(self) -> None:
        self.rests = True

    def fails(self, result: Result) -> bool:
        self.failures.append(result)
        return self.has_another_server

    def heard(self, data: bytes) -> bytes:
        """What is said to a reply."""
        before = len(self.said)
        self.dialogue.received(data)
        return self.said[before:]

    def is_writing(self) -> bool:
        return self.dialogue.is_writing

    def content(self, name: str) -> bytes:
        return self.mailing.wire(recipients(name)[0]) + b".\r\n"

    @property
    def kinds(self) -> dict[int, ResultKind]:
        return {position: each.kind for position, each in self.notes.settled_as.items()}


def envelope(name: str) -> bytes:
    return b"MAIL FROM:<news@example.com>\r\nRCPT TO:<%b@example.com>\r\nDATA\r\n" % name.encode()


def test_one_write_ends_an_email_and_begins_the_next() -> None:
    talk = Talk("a", "b")

    assert talk.said == envelope("a")
    assert talk.heard(OPEN) == talk.content("a") + envelope("b")
    assert talk.notes.handed_over == [0]
    assert talk.heard(b"250 kept as 1\r\n" + OPEN) == talk.content("b")
    assert talk.kinds == {0: ACCEPTED}
    assert talk.notes.settled_as[0].reply == "250 kept as 1"
    assert talk.heard(b"250 kept as 2\r\n") == b""
    assert talk.kinds == {0: ACCEPTED, 1: ACCEPTED}
    assert talk.rests
    assert talk.finished()


@pytest.mark.parametrize("cut", range(1, 50, 7))
def test_replies_may_come_in_parts(cut: int) -> None:
    talk = Talk("a", "b")
    talk.heard(OPEN)
    replies = b"250 kept\r\n" + OPEN

    talk.heard(replies[:cut])

    assert talk.heard(replies[cut:]).endswith(talk.content("b"))
    assert talk.kinds == {0: ACCEPTED}


def test_replies_of_several_lines_are_replies() -> None:
    talk = Talk("a", "b")
    talk.heard(OPEN)

    said = talk.heard(b"250-kept\r\n250 well\r\n250 s\r\n250-r\r\n250 r\r\n354 go\r\n")

    assert said == talk.content("b")
    assert talk.notes.settled_as[0].reply == "250 kept well"


def test_without_pipelining_each_command_waits() -> None:
    talk = Talk("a", "b", extensions=PLAIN)

    assert talk.said == b"MAIL FROM:<news@example.com>\r\n"
    assert talk.heard(b"250 ok\r\n") == b"RCPT TO:<a@example.com>\r\n"
    assert talk.heard(b"250 ok\r\n") == b"DATA\r\n"
    assert talk.notes.handed_over == []
    assert talk.heard(b"354 go\r\n") == talk.content("a")
    assert talk.notes.handed_over == [0]
    assert talk.heard(b"250 kept\r\n") == b"MAIL FROM:<news@example.com>\r\n"
    assert talk.kinds == {0: ACCEPTED}


def test_without_pipelining_a_refused_recipient_is_followed_by_a_reset() -> None:
    talk = Talk("a", "b", extensions=PLAIN)
    talk.heard(b"250 ok\r\n")

    assert talk.heard(b"550 5.1.1 unknown\r\n") == b"RSET\r\n"
    assert talk.kinds == {0: REFUSED}
    assert talk.heard(b"250 ok\r\n") == b"MAIL FROM:<news@example.com>\r\n"
    assert talk.heard(b"250 ok\r\n") == b"RCPT TO:<b@example.com>\r\n"


def test_a_refused_recipient_in_a_group_is_followed_by_a_reset_in_the_next() -> None:
    talk = Talk("a", "b")

    said = talk.heard(b"250 ok\r\n550 5.1.1 unknown\r\n554 no valid recipients\r\n")

    assert said == b"RSET\r\n" + envelope("b")
    assert talk.kinds == {0: REFUSED}
    assert talk.notes.settled_as[0].reply == "550 5.1.1 unknown"
    assert talk.heard(b"250 reset\r\n" + OPEN) == talk.content("b")


def test_a_refused_recipient_after_a_good_one_leaves_the_good_one_accepted() -> None:
    talk = Talk("a", "b", "c")
    talk.heard(OPEN)

    said = talk.heard(b"250 kept\r\n250 ok\r\n450 4.2.1 busy\r\n503 no\r\n")

    assert said == b"RSET\r\n" + envelope("c")
    assert talk.kinds == {0: ACCEPTED, 1: DEFERRED}


def test_the_last_recipient_refused_leaves_the_reset_for_later() -> None:
    talk = Talk("a")
    assert talk.heard(b"250 ok\r\n550 5.1.1 unknown\r\n554 no valid recipients\r\n") == b""
    assert talk.rests

    talk.backlog.add(SmtpBatch(talk.mailing, recipients("b"), Notes()))
    before = len(talk.said)
    talk.dialogue.wake()

    assert talk.said[before:] == b"RSET\r\n" + envelope("b")


def test_data_allowed_without_a_recipient_is_ended_by_a_lone_dot() -> None:
    talk = Talk("a", "b")

    said = talk.heard(b"250 ok\r\n550 5.1.1 unknown\r\n354 go\r\n")

    assert said == b".\r\n" + envelope("b")
    assert talk.kinds == {0: REFUSED}
    assert talk.notes.handed_over == []
    # Whatever the server says to the empty mail is about nobody.
    assert talk.heard(b"554 no valid recipients\r\n" + OPEN) == talk.content("b")
    assert talk.kinds == {0: REFUSED}


def test_even_an_accepted_lone_dot_is_about_nobody() -> None:
    talk = Talk("a", "b")
    talk.heard(b"250 ok\r\n550 5.1.1 unknown\r\n354 go\r\n")

    assert talk.heard(b"250 kept\r\n" + OPEN) == talk.content("b")
    assert talk.kinds == {0: REFUSED}


def test_a_refused_sender_with_data_allowed_gets_no_dot() -> None:
    """The recipient was taken: a dot would send it an empty mail."""
    talk = Talk("a", "b")

    assert talk.heard(b"451 4.3.0 later\r\n250 ok\r\n354 go\r\n") == b""
    assert talk.kinds == {0: HELD, 1: HELD}
    assert talk.hung_up


def test_a_sender_not_accepted_for_now_holds_everything_that_waits() -> None:
    talk = Talk("a", "b", "c")

    said = talk.heard(b"451 4.3.0 later\r\n503 no\r\n503 no\r\n")

    assert talk.kinds == dict.fromkeys(range(3), HELD)
    for result in talk.notes.settled_as.values():
        assert (result.reply, result.scope) == ("451 4.3.0 later", FaultScope.ACCOUNT)
        assert result.reason == "The mail server is busy at the moment"
    assert said == b""
    assert talk.rests


@pytest.mark.parametrize(
    "replies",
    [
        b"550 5.7.1 no quota\r\n503 no\r\n503 no\r\n",
        b"250 ok\r\n554 5.7.1 Relay access denied\r\n503 no\r\n",
        OPEN + b"550 5.4.5 Daily user sending limit exceeded\r\n",
    ],
)
def test_what_one_server_refuses_goes_to_another(replies: bytes) -> None:
    talk = Talk("a", "b", extensions=PLAIN if replies.startswith(OPEN) else PIPELINED)
    talk.has_another_server = True

    for line in replies.splitlines(keepends=True):
        talk.heard(line)

    assert talk.hung_up
    assert talk.kinds == {}
    assert talk.backlog.size == 2
    assert len(talk.failures) == 1
    assert talk.failures[0].scope is FaultScope.ACCOUNT


def test_a_message_that_is_rejected_is_not_offered_again_but_others_are() -> None:
    talk = Talk("a", "b", "c", "d")
    other = Talk("x", backlog=talk.backlog)
    talk.heard(OPEN)

    talk.heard(b"552 5.3.4 message too large\r\n" + OPEN)

    assert talk.kinds == {0: HELD, 2: HELD, 3: HELD}  # 1 is on the other connection
    assert talk.content("c") not in talk.said
    assert {each.scope for each in talk.notes.settled_as.values()} == {FaultScope.MESSAGE}
    assert other.kinds == {}


def test_a_provider_that_throttles_stops_nobody_else() -> None:
    talk = Talk("a", "b")

    said = talk.heard(b"250 ok\r\n451 4.7.0 [TSS04] deferred\r\n503 no\r\n")

    assert talk.kinds == {0: HELD}
    assert talk.notes.settled_as[0].scope is FaultScope.PROVIDER
    assert envelope("b") in said


def test_a_refused_sender_address_is_reported_in_the_servers_words() -> None:
    talk = Talk("a")

    talk.heard(b"550 5.7.1 we do not like you\r\n503 no\r\n503 no\r\n")

    assert talk.kinds == {0: HELD}
    assert talk.notes.settled_as[0].reply == "550 5.7.1 we do not like you"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (b"250 kept\r\n", ACCEPTED),
        (b"550 5.6.0 no\r\n", HELD),
        (b"550 5.0.0 no\r\n", REFUSED),
        (b"451 4.3.0 later\r\n", DEFERRED),
        (b"550 5.7.26 unauthenticated\r\n", HELD),
        (b"421 4.3.2 closing\r\n", DEFERRED),
        (b"354 what\r\n", IN_DOUBT),
        (b"what\r\n", IN_DOUBT),
        (b"250 kept\r\nwhat\r\n", ACCEPTED),
        (b"550 5.1.1 unknown\r\nwhat\r\n", REFUSED),
        (b"what\r\n250 kept\r\n", ACCEPTED),
        (b"what\r\n250 kept\r\n250 again\r\n", IN_DOUBT),
    ],
)
def test_the_reply_to_the_content_settles_it(reply: bytes, kind: ResultKind) -> None:
    talk = Talk("a")
    talk.heard(OPEN)

    talk.heard(reply)

    assert talk.kinds == {0: kind}


@pytest.mark.parametrize("heard", [b"", b"250 ok\r\n", b"250 ok\r\n250 ok\r\n"])
def test_a_connection_that_breaks_before_the_content_gives_the_email_back(heard: bytes) -> None:
    talk = Talk("a")
    talk.heard(heard)

    talk.dialogue.lost("broken")

    assert talk.kinds == {}
    assert talk.backlog.size == 1


@pytest.mark.parametrize(
    ("heard", "stage", "kind"),
    [
        (b"", "MAIL", HELD),
        (b"250 ok\r\n", "RCPT", DEFERRED),
        (b"250 a\r\n250 b\r\n", "DATA", DEFERRED),
    ],
)
def test_an_email_whose_connections_keep_breaking_is_settled(
    heard: bytes, stage: str, kind: ResultKind
) -> None:
    """Before the recipient is named it cannot be what the server stumbles over."""
    backlog = Backlog()
    talk = Talk("a", backlog=backlog)
    for _ in range(MOST_ATTEMPTS - 1):
        talk.heard(heard)
        talk.dialogue.lost("broken")
        assert talk.kinds == {}
        talk.dialogue = Dialogue("mx.test:25", PIPELINED, backlog, talk)
        talk.dialogue.wake()

    talk.heard(heard)
    talk.dialogue.lost("broken")

    assert talk.kinds == {0: kind}
    assert talk.notes.settled_as[0].reply == f"mx.test:25: broken before the reply to {stage}"


def test_a_connection_that_breaks_after_the_dot_leaves_one_in_doubt_and_the_next_innocent() -> None:
    talk = Talk("a", "b")
    talk.heard(OPEN)

    talk.dialogue.lost("broken")

    assert talk.kinds == {0: IN_DOUBT}
    following = talk.backlog.take()
    assert following is not None
    assert (following.position, following.attempts) == (1, 0)


@pytest.mark.parametrize("count", range(3))
def test_421_to_a_command_gives_the_email_to_another_connection(count: int) -> None:
    talk = Talk("a")
    talk.heard(b"250 ok\r\n" * count)

    talk.heard(b"421 4.3.2 closing\r\n")

    assert talk.hung_up
    assert talk.kinds == {}
    assert talk.backlog.size == 1


def test_421_that_blames_the_sender_is_not_a_reason_to_try_again() -> None:
    talk = Talk("a", "b")

    talk.heard(b"250 ok\r\n421 4.7.0 unusual rate of mail\r\n")

    assert talk.kinds == {0: HELD}
    assert talk.notes.settled_as[0].scope is FaultScope.PROVIDER
    assert talk.hung_up


def test_421_to_the_content_defers_it_and_gives_back_the_next() -> None:
    talk = Talk("a", "b")
    talk.heard(OPEN)

    talk.heard(b"421 4.3.2 closing\r\n")

    assert talk.kinds == {0: DEFERRED}
    assert talk.backlog.size == 1
    assert talk.hung_up


def test_unexpected_data_on_an_idle_connection_closes_it() -> None:
    talk = Talk("a")
    talk.heard(OPEN)
    talk.heard(b"250 kept\r\n")

    talk.heard(b"421 4.4.2 idle for too long\r\n")

    assert talk.hung_up
    assert talk.kinds == {0: ACCEPTED}


@pytest.mark.parametrize(
    "heard", [b"354 go\r\n", b"250 a\r\n354 b\r\n", b"250 a\r\n250 b\r\n250 c\r\n", b"x\r\n"]
)
def test_a_server_whose_replies_are_out_of_step_is_abandoned(heard: bytes) -> None:
    talk = Talk("a")

    talk.heard(heard)

    assert talk.hung_up
    assert talk.kinds == {}
    assert talk.backlog.size == 1


@pytest.mark.parametrize(("heard", "kind"), [(b"", HELD), (b"250 ok\r\n", DEFERRED)])
def test_a_timeout_before_the_content_is_settled_at_once(heard: bytes, kind: ResultKind) -> None:
    talk = Talk("a")
    talk.heard(heard)

    talk.dialogue.lost("no answer", retry=False)

    assert talk.kinds == {0: kind}


def test_after_garbage_nothing_more_is_sent() -> None:
    talk = Talk("a", "b", "c")
    talk.heard(OPEN)

    said = talk.heard(b"250 kept\r\n" + OPEN + b"garbage\r\n")

    assert said == b""
    assert talk.hung_up
    assert talk.kinds == {0: ACCEPTED}
    assert talk.backlog.size == 2


def test_after_garbage_a_reply_that_may_belong_to_another_email_is_not_used() -> None:
    """The garbage may have been the reply to the content, and a refusal."""
    talk = Talk("a", "b")
    talk.heard(OPEN)

    talk.heard(b"5\x000 no\r\n" + OPEN)

    assert talk.kinds == {0: IN_DOUBT}
    assert talk.hung_up


def test_a_large_email_is_written_as_the_connection_takes_it() -> None:
    talk = Talk("a", "b", size=3 * PIECE)
    talk.pauses = True

    first = talk.heard(OPEN)

    assert len(first) == PIECE
    assert talk.notes.handed_over == []
    assert talk.is_writing()
    talk.dialogue.resumed()
    talk.dialogue.resumed()
    assert talk.notes.handed_over == []
    talk.dialogue.resumed()
    assert talk.notes.handed_over == [0]
    assert not talk.is_writing()
    assert talk.said == envelope("a") + talk.content("a") + envelope("b")


def test_a_large_email_that_is_not_completely_written_is_not_in_doubt() -> None:
    talk = Talk("a", size=3 * PIECE)
    talk.pauses = True
    talk.heard(OPEN)

    talk.dialogue.lost("broken")

    assert talk.kinds == {}
    assert talk.backlog.size == 1


@pytest.mark.parametrize(
    ("reply", "kind"), [(b"552 5.2.3 too large\r\n", HELD), (b"451 4.3.1 full\r\n", DEFERRED)]
)
def test_a_large_email_may_be_refused_in_its_middle(reply: bytes, kind: ResultKind) -> None:
    talk = Talk("a", size=3 * PIECE)
    talk.pauses = True
    talk.heard(OPEN)

    assert talk.heard(reply) == b""
    assert talk.kinds == {0: kind}
    assert talk.hung_up


def test_an_acceptance_in_the_middle_of_a_large_email_is_not_trusted() -> None:
    talk = Talk("a", size=3 * PIECE)
    talk.pauses = True
    talk.heard(OPEN)

    talk.heard(b"250 kept\r\n")

    assert talk.kinds == {}
    assert talk.backlog.size == 1
    assert talk.hung_up


def test_a_cancelled_email_is_not_ended_by_a_dot() -> None:
    talk = Talk("a", "b")
    talk.batch.cancel()

    assert talk.heard(OPEN) == b""
    assert talk.hung_up
    assert talk.finished()
    assert talk.notes.handed_over == []


def test_a_cancelled_batch_waits_for_what_was_handed_over() -> None:
    talk = Talk("a", "b")
    talk.heard(OPEN)

    talk.batch.cancel()
    assert not talk.finished()
    talk.heard(b"250 kept\r\n" + OPEN)

    assert talk.finished()
    assert talk.kinds == {0: ACCEPTED}
    assert talk.notes.handed_over == [0]


def test_sizes_are_declared_and_limits_respected() -> None:
    talk = Talk("a", extensions=Extensions(pipelining=True, size=0), size=5000)
    assert b"MAIL FROM:<news@example.com> SIZE=%d\r\n" % len(talk.content("a")[:-3]) in talk.said

    talk = Talk("a", extensions=Extensions(pipelining=True, size=1000), size=5000)
    assert talk.said == b""
    assert talk.kinds == {0: HELD}
    assert "at most 1000" in talk.notes.settled_as[0].reply


@pytest.mark.parametrize("has_domain", [True, False])
@pytest.mark.parametrize("dsn", [True, False])
def test_bounces_name_the_email_whatever_its_sender_is(has_domain: bool, dsn: bool) -> None:
    domain = "bounce.example.com" if has_domain else ""
    signer = EnvelopeSigner([b"k" * 32], sender="bounces@example.com", domain=domain)
    tokens = signer.of_message(new_ref())
    mailing, guid = PlainMailing(), new_guid()
    mailing.envelope = tokens

    talk = Talk(guid, extensions=Extensions(pipelining=True, dsn=dsn), mailing=mailing)

    token = tokens.token(guid)
    mail, rcpt = "MAIL FROM:<bounces@example.com>", f"RCPT TO:<{guid}@example.com>"
    if has_domain:
        mail = f"MAIL FROM:<{token}@bounce.example.com>"
    if dsn:
        mail += " RET=HDRS" if has_domain else f" RET=HDRS ENVID={token}"
        rcpt += " NOTIFY=FAILURE"
    assert talk.said.decode() == f"{mail}\r\n{rcpt}\r\nDATA\r\n"


def test_doubled_dots_do_not_count_against_the_limit() -> None:
    limit = len(PlainMailing().mail(recipients("a")[0]))

    assert Talk("a", extensions=Extensions(size=limit)).kinds == {}
    assert Talk("a", extensions=Extensions(size=limit - 1)).kinds == {0: HELD}


def test_smtputf8_is_used_only_where_needed() -> None:
    extensions = Extensions(pipelining=True, smtputf8=True)

    talk = Talk("jürgen@example.com", "a", extensions=extensions)

    assert talk.said.startswith(b"MAIL FROM:<news@example.com> SMTPUTF8\r\n")
    assert "RCPT TO:<jürgen@example.com>".encode() in talk.said
    assert talk.heard(OPEN).endswith(envelope("a"))


def test_an_address_that_needs_smtputf8_is_refused_where_it_is_not_offered() -> None:
    talk = Talk("jürgen@example.com", "a@bücher.example")

    assert talk.kinds == {0: REFUSED}
    assert "SMTPUTF8" in talk.notes.settled_as[0].reply
    assert b"RCPT TO:<a@xn--bcher-kva.example>" in talk.said


def test_a_sender_that_needs_smtputf8_holds_the_message_where_it_is_not_offered() -> None:
    talk = Talk("a", sender="jürgen@example.com")

    assert talk.kinds == {0: HELD}


def test_an_address_that_could_end_the_command_never_leaves() -> None:
    talk = Talk("a>\r\nRCPT TO:<b@example.com")

    assert talk.said == b""
    assert talk.kinds == {0: REFUSED}


def test_an_email_that_cannot_be_composed_holds_nobody_else_up() -> None:
    class Broken(PlainMailing):
        def wire(self, recipient: Recipient) -> bytes:
            raise ValueError("no such field")

    backlog, notes = Backlog(), Notes()
    backlog.add(SmtpBatch(Broken(), recipients("a"), notes))

    talk = Talk("b", backlog=backlog)

    assert notes.settled_as[0].kind is HELD
    assert "no such field" in notes.settled_as[0].reply
    assert talk.said == envelope("b")


def test_a_retired_dialogue_finishes_and_takes_no_more() -> None:
    talk = Talk("a", "b")
    talk.dialogue.retire()

    assert talk.heard(OPEN) == talk.content("a")
    talk.heard(b"250 kept\r\n")

    assert talk.rests
    assert talk.backlog.size == 1


# -- the usual answer, which is taken without parsing -------------------------------------


@pytest.mark.parametrize("usual_before", [0, 1, 2])
@pytest.mark.parametrize("last", [b"354 go\r\n", b"554 no\r\n"])
def test_a_refused_recipient_among_usual_replies_gets_nothing(
    usual_before: int, last: bytes
) -> None:
    talk = Talk("a", "b", "c", "d")
    talk.heard(OPEN)
    for _ in range(usual_before):
        talk.heard(b"250 kept\r\n" + OPEN)
    refused = "abcd"[usual_before + 1]
    said = talk.heard(b"250 kept\r\n250 s\r\n550 5.1.1 no\r\n" + last)
    accepted = dict.fromkeys(range(usual_before + 1), ACCEPTED)
    assert talk.kinds == {**accepted, usual_before + 1: REFUSED}
    assert talk.content(refused) not in said


@pytest.mark.parametrize("usual_before", [0, 1])
def test_a_refused_sender_among_usual_replies_sends_nothing(usual_before: int) -> None:
    talk = Talk("a", "b", "c", "d")
    talk.heard(OPEN)
    for _ in range(usual_before):
        talk.heard(b"250 kept\r\n" + OPEN)
    said = talk.heard(b"250 kept\r\n452 4.3.1 full\r\n250 r\r\n354 go\r\n")
    assert talk.kinds[usual_before + 1] is HELD
    assert said == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"250 kept\n550 no\r\n250 s\r\n250 r\r\n354 go\r\n",
        b"250 kept\r\n250 s\n550 no\r\n250 r\r\n354 go\r\n",
        b"250-kept\r\n250 s\r\n250 r\r\n354 go\r\n",
    ],
)
def test_a_reply_that_only_looks_usual_is_parsed_completely(answer: bytes) -> None:
    talk = Talk("a", "b", "c")
    talk.heard(OPEN)
    said = talk.heard(answer)
    assert talk.content("b") not in said
