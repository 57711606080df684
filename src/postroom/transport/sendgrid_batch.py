"""The emails of one `send` as SendGrid wants them, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from postroom.domain.addresses import Address
from postroom.domain.errors import Invalid
from postroom.mail.envelope import envelope_address
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.placeholders import Parts
from postroom.transport.contract import Result, ResultKind, Watcher


@runtime_checkable
class TemplatedMailing(Protocol):
    """What a mailing must offer beside `Mailing` to be sent by SendGrid."""

    from_address: Address

    def parts(self) -> Parts: ...

    def values(self, recipient: Recipient) -> Mapping[str, str]:
        """Placeholder → what stands there for this recipient, escaped as its place needs."""

    def headers(self, recipient: Recipient) -> Mapping[str, str]:
        """This recipient's headers: List-Unsubscribe, List-Unsubscribe-Post, and again those that
        are the same for all, which these may replace."""

    def message_id(self, recipient: Recipient) -> str: ...


class SendgridBatch:
    def __init__(self, mailing: Mailing, recipients: Sequence[Recipient], watcher: Watcher) -> None:
        self._mailing = mailing
        self._recipients = recipients
        self._watcher = watcher
        self._common: dict[str, object] = {}
        self._personal: dict[int, dict[str, object]] = {}
        self._handed_over: set[int] = set()
        self._done: set[int] = set()
        self.results = [Result(ResultKind.DEFERRED, "not sent")] * len(recipients)
        self.cancelled = False

    def prepare(self) -> list[int]:
        """The positions that can be sent; the others are settled."""
        mailing = self._mailing
        positions = range(len(self._recipients))
        try:
            if not isinstance(mailing, TemplatedMailing):
                raise Invalid("message", "cannot be sent by SendGrid: it has no templates")
            self._common = _common(mailing)
        except Invalid as exc:
            for position in positions:
                self.settle(position, Result(ResultKind.HELD, str(exc)))
            return []
        for position in positions:
            try:
                self._personal[position] = _personal(mailing, self._recipients[position])
            except Invalid as exc:
                self.settle(position, Result(ResultKind.REFUSED, str(exc)))
        return list(self._personal)

    def body(self, positions: Sequence[int]) -> bytes:
        """The call's JSON."""
        personal = [self._personal[each] for each in positions]
        return msgspec.json.encode({**self._common, "personalizations": personal})

    def hand_over(self, positions: Sequence[int]) -> None:
        for each in positions:
            if each not in self._handed_over:  # a call that was refused is repeated
                self._handed_over.add(each)
                self._watcher.handing_over(each)

    def settle(self, position: int, result: Result) -> None:
        if position not in self._done:
            self._done.add(position)
            self.results[position] = result
            self._watcher.settled(position, result)

    def doubt(self, reason: str) -> None:
        """No more answers are waited for."""
        for position in sorted(self._handed_over - self._done):
            self.settle(position, Result(ResultKind.IN_DOUBT, reason))


def _common(mailing: TemplatedMailing) -> dict[str, object]:
    parts = mailing.parts()
    sender = {"email": envelope_address(mailing.from_address)}
    if parts.from_name:
        sender["name"] = parts.from_name
    # Text before HTML: SendGrid insists on this order.
    contents = (("text/plain", parts.text), ("text/html", parts.html))
    return {
        "from": sender,
        "subject": parts.subject,
        "content": [{"type": kind, "value": value} for kind, value in contents if value],
        "headers": dict(parts.headers),
        # Rewritten links and added pixels are for our users to decide, not for the relay.
        "tracking_settings": {
            "click_tracking": {"enable": False, "enable_text": False},
            "open_tracking": {"enable": False},
        },
    }


def _personal(mailing: TemplatedMailing, recipient: Recipient) -> dict[str, object]:
    message_id = mailing.message_id(recipient)
    return {
        "to": [{"email": envelope_address(recipient.address)}],
        "substitutions": dict(mailing.values(recipient)),
        "headers": {**mailing.headers(recipient), "Message-ID": message_id},
        # Comes back with every event, so that bounces find their email.
        "custom_args": {"postroom_message_id": message_id},
    }
