"""The emails of one `send` as SendGrid wants them, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import Invalid
from postroom.mail.envelope import envelope_address
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.placeholders import Parts
from postroom.transport.contract import Result, ResultKind, Scope, Watcher


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
    """`finished` is called once: when everything is settled, or cancelled and what was handed over
    is."""

    def __init__(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        finished: Callable[[], None],
    ) -> None:
        self.mailing = mailing
        self.common: dict[str, object] = {}
        self.personal: dict[int, dict[str, object]] = {}
        self.cancelled = False
        self.results = [Result(ResultKind.DEFERRED, "not sent")] * len(recipients)
        self._recipients = recipients
        self._watcher = watcher
        self._finished = finished
        self._handed_over: set[int] = set()
        self._done: set[int] = set()

    def prepare(self) -> list[int]:
        """Return the positions that can be sent; the others are settled."""
        mailing = self.mailing
        positions = range(len(self._recipients))
        try:
            if not isinstance(mailing, TemplatedMailing):
                raise Invalid("message", "cannot be sent by SendGrid: it has no templates")
            self.common = _common(mailing)
        except Invalid as exc:
            reason = "The message cannot be sent by SendGrid"
            for position in positions:
                self.settle(position, Result(ResultKind.HELD, str(exc), Scope.MESSAGE, reason))
            return []
        for position in positions:
            try:
                self.personal[position] = _personal(mailing, self._recipients[position])
            except Invalid as exc:
                reason = "Mail cannot be sent to this address"
                self.settle(position, Result(ResultKind.REFUSED, str(exc), reason=reason))
        return list(self.personal)

    def hand_over(self, position: int) -> None:
        if position not in self._handed_over:  # a call that was refused is repeated
            self._handed_over.add(position)
            self._watcher.handing_over(position)

    def settle(self, position: int, result: Result) -> None:
        # What was cancelled before it was handed over concerns nobody any more.
        if position in self._done or (self.cancelled and position not in self._handed_over):
            return
        self._done.add(position)
        self.results[position] = result
        self._watcher.settled(position, result)
        self._look_whether_finished()

    def cancel(self) -> None:
        """Nothing more of it is handed over."""
        self.cancelled = True
        self._look_whether_finished()

    def doubt(self, problem: str) -> None:
        """No more answers are waited for."""
        for position in sorted(self._handed_over - self._done):
            self.settle(position, Result(ResultKind.IN_DOUBT, problem))

    def _look_whether_finished(self) -> None:
        if len(self._done) == len(self._recipients) or (
            self.cancelled and self._handed_over <= self._done
        ):
            self._finished()


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
