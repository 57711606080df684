"""What a transport needs to know about the emails that it sends."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import SubscriberGuid


class Recipient(msgspec.Struct, frozen=True, gc=False):
    """An address, and the secret of this subscriber's links."""

    address: Address
    guid: SubscriberGuid


class Mailing(ABC):
    """One message, compiled: everything that is the same for all recipients is built once."""

    from_address: Address
    """For the envelope and the From header."""

    subject: str

    @abstractmethod
    def mail(self, recipient: Recipient) -> bytes:
        """Return the whole email (RFC 5322) with CRLF line ends: always the same bytes."""

    @abstractmethod
    def wire(self, recipient: Recipient) -> bytes:
        """Return the same for SMTP's DATA: with dots at the beginning of lines doubled (RFC 5321
        4.5.2) and CRLF at the end, without the final dot."""

    @abstractmethod
    def message_id(self, recipient: Recipient) -> str:
        """Return the Message-ID with its angle brackets: the same for every attempt."""

    @property
    @abstractmethod
    def needs_smtputf8(self) -> bool:
        """Whether headers other than the recipient's need SMTPUTF8."""
