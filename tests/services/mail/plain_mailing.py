"""The simplest mailing that a transport can be given, and a watcher that takes notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.mail.mailing import Mailing, Parts, Recipient
from postroom.transport.contract import Result, ResultKind
from tests.services.waiting import wait_until


class PlainMailing(Mailing):
    """A short text, the same for all; `size` makes it longer."""

    def __init__(self, size: int = 0, sender: str = "news@example.com") -> None:
        self.from_address = Address(sender)
        self.subject = "Hello"
        self._filling = b"0123456789" * 7 + b"\r\n"
        self._lines = size // len(self._filling)

    def mail(self, recipient: Recipient) -> bytes:
        head = (
            f"From: {self.from_address}\r\nTo: {recipient.address}\r\nSubject: {self.subject}\r\n"
            f"Date: Sun, 15 Nov 2026 08:00:00 +0000\r\nMessage-ID: {self.message_id(recipient)}\r\n"
            "\r\n.a line that begins with a dot\r\n"
        )
        return head.encode() + self._filling * self._lines

    def wire(self, recipient: Recipient) -> bytes:
        return self.mail(recipient).replace(b"\r\n.", b"\r\n..")

    def message_id(self, recipient: Recipient) -> str:
        return f"<{recipient.guid}@postroom.test>"

    @property
    def needs_smtputf8(self) -> bool:
        return not self.from_address.isascii()


class TemplatedMailing(PlainMailing):
    """The same for email providers, which fill in the values themselves."""

    def variant(self, recipient: Recipient) -> TemplatedMailing:
        return self

    def parts(self) -> Parts:
        return Parts(
            subject="Hello",
            text="You are %text-email%",
            html="<p>You are %html-email%</p>",
            from_name="The News",
            headers={"List-Id": "<news.example.com>"},
        )

    def values(self, recipient: Recipient) -> Mapping[str, str]:
        return {"%text-email%": recipient.address, "%html-email%": recipient.address}

    def headers(self, recipient: Recipient) -> Mapping[str, str]:
        return {"List-Unsubscribe": f"<https://example.com/u?id={recipient.guid}>"}


class Notes:
    """A watcher that remembers everything, and what must never happen."""

    def __init__(self) -> None:
        self.handed_over: list[int] = []
        self.settled_as: dict[int, Result] = {}
        self.most_under_way = 0
        self.may_be_handed_over_again = False
        """To another server, after one has refused it."""

    def handing_over(self, position: int) -> None:
        assert position not in self.settled_as, "handed over after it was settled"
        assert self.may_be_handed_over_again or position not in self.handed_over, (
            "handed over twice"
        )
        self.handed_over.append(position)
        under_way = len(set(self.handed_over) - set(self.settled_as))
        self.most_under_way = max(self.most_under_way, under_way)

    def settled(self, position: int, result: Result) -> None:
        assert position not in self.settled_as, "settled twice"
        self.settled_as[position] = result

    def wait_for_settled(self, count: int, seconds: float = 60) -> None:
        """From another thread than the event loop's."""
        wait_until(lambda: len(self.settled_as) >= count, seconds=seconds, what=f"{count} emails")

    def was_handed_over(self, position: int) -> bool:
        return position in self.handed_over


def recipients(*names: str) -> list[Recipient]:
    return [
        Recipient(Address(name if "@" in name else f"{name}@example.com"), SubscriberGuid(name))
        for name in names
    ]


def many(count: int) -> list[Recipient]:
    return recipients(*(f"user{number}" for number in range(count)))


def kinds(results: Sequence[Result]) -> list[ResultKind]:
    return [each.kind for each in results]
