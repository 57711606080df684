"""What a transport needs to know of the mail that it sends."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import SubscriberGuid


class Recipient(msgspec.Struct, frozen=True, gc=False):
    """To whom, and the secret of this subscriber's links."""

    address: Address
    guid: SubscriberGuid


class Mailing(ABC):
    """One message, made ready: everything that is the same for all recipients is built once."""

    from_address: Address
    """Sender of the envelope and of the header."""

    subject: str

    @abstractmethod
    def mail(self, recipient: Recipient) -> bytes:
        """The whole mail (RFC 5322), lines ending in CRLF. The same bytes however often made."""

    @abstractmethod
    def wire(self, recipient: Recipient) -> bytes:
        """The same as SMTP's DATA wants it: dots at the beginning of a line doubled (RFC 5321
        4.5.2), CRLF at the end, without the final dot."""

    @abstractmethod
    def message_id(self, recipient: Recipient) -> str:
        """The Message-ID with its angle brackets: one for each email, however often it is tried."""

    @property
    @abstractmethod
    def needs_smtputf8(self) -> bool:
        """Whether the headers contain what only SMTPUTF8 can carry (not counting the recipient)."""
