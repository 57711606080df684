"""Mailings: what a transport needs to know about the emails that it sends, and a message as bytes
with slots, where everything is encoded once and each recipient is inserted.

No line of an email begins with a dot (see `body_encoding`), so SMTP's DATA is the email itself.
"""

from __future__ import annotations

import hashlib
import html
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import SubscriberGuid
from postroom.domain.errors import Invalid
from postroom.mail import header_text
from postroom.mail.body_encoding import LONGEST_GUID, LONGEST_VALUE, Pieces, Slot, quoted
from postroom.mail.placeholders import Parts, Placeholders, Source
from postroom.mail.wire_addresses import envelope_address, needs_smtputf8

# Most addresses consist of these and are the same in headers, text and HTML.
_ALNUM: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_PLAIN: Final = _ALNUM + b"@.+-_"
_IN_GUID: Final = _ALNUM + b"-"
_DIGEST_SIZE: Final = 12  # 96 bits: no collision among billions of emails


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


class MessageIds(msgspec.Struct, frozen=True):
    """The Message-IDs of a mailing: `<KEY.DIGEST@DOMAIN>`.

    The digest of `scope` and the recipient's address gives an email the same Message-ID for every
    attempt without revealing the address.
    """

    key: str
    domain: str
    scope: str


class SplicedMailing(Mailing):
    """A mailing that joins static pieces and each recipient's values."""

    def __init__(
        self,
        pieces: Pieces,
        *,
        from_address: Address,
        subject: str,
        ids: MessageIds,
        source: Source,
    ) -> None:
        self.from_address = from_address
        self.subject = subject
        self._ids = ids
        self._source = source
        self._hash = hashlib.blake2b(
            f"{ids.key} {ids.scope} ".encode(), digest_size=_DIGEST_SIZE, usedforsecurity=False
        )
        self._pieces = _merged(pieces)
        self._guids = self._positions(Slot.GUID)
        self._message_ids = self._positions(Slot.MESSAGE_ID)
        self._in_subject = self._positions(Slot.EMAIL_IN_SUBJECT)
        self._to = self._positions(Slot.TO)
        self._in_text = self._positions(Slot.EMAIL_IN_TEXT)
        self._in_html = self._positions(Slot.EMAIL_IN_HTML)
        self._addresses = self._to + self._in_text + self._in_html
        self._static = [each if isinstance(each, bytes) else b"" for each in self._pieces]

    def mail(self, recipient: Recipient) -> bytes:
        # About 100,000 of these per second and core: avoid every call.
        guid = recipient.guid.encode("utf-8", "replace")
        if guid.translate(None, _IN_GUID) or not 0 < len(guid) <= LONGEST_GUID:
            raise Invalid("id", "must be an identifier made by Postroom")
        address = recipient.address.encode("utf-8", "replace")
        pieces = self._static.copy()
        for position in self._guids:
            pieces[position] = guid
        digest = self._hash.copy()
        digest.update(address)
        identity = digest.hexdigest().encode("ascii")
        for position in self._message_ids:
            pieces[position] = identity
        if address.translate(None, _PLAIN) or len(address) > LONGEST_VALUE or address[:1] == b".":
            self._insert_unusual(pieces, recipient.address)
        else:
            for position in self._addresses:
                pieces[position] = address
            for position in self._in_subject:
                pieces[position] = _in_subject(address)
        return b"".join(pieces)

    wire = mail  # no line begins with a dot

    def message_id(self, recipient: Recipient) -> str:
        digest = self._hash.copy()
        digest.update(recipient.address.encode("utf-8", "replace"))
        return f"<{self._ids.key}.{digest.hexdigest()}@{self._ids.domain}>"

    @property
    def needs_smtputf8(self) -> bool:
        return needs_smtputf8(self.from_address)

    # — For providers that insert the values themselves (`TemplatedMailing`) —

    def parts(self) -> Parts:
        """Return the message as text with placeholders."""
        return self._placeholders.parts

    def values(self, recipient: Recipient) -> Mapping[str, str]:
        """Return placeholder → this recipient's value, escaped for its place."""
        return self._placeholders.values(recipient.address, _checked_guid(recipient))

    def headers(self, recipient: Recipient) -> Mapping[str, str]:
        """Return this recipient's list headers."""
        return self._placeholders.headers(_checked_guid(recipient))

    @cached_property
    def _placeholders(self) -> Placeholders:
        return Placeholders(self._source)

    def _insert_unusual(self, pieces: list[bytes], address: Address) -> None:
        """Insert an address that needs a different encoding in each place."""
        _fill(pieces, self._to, envelope_address(address).encode())
        if self._in_text:
            _fill(pieces, self._in_text, quoted(address))
        if self._in_html:
            _fill(pieces, self._in_html, quoted(html.escape(address)))
        if self._in_subject:
            _fill(pieces, self._in_subject, _words(address))

    def _positions(self, slot: Slot) -> tuple[int, ...]:
        return tuple(position for position, each in enumerate(self._pieces) if each is slot)


def _checked_guid(recipient: Recipient) -> str:
    guid = recipient.guid.encode("utf-8", "replace")
    if guid.translate(None, _IN_GUID) or not 0 < len(guid) <= LONGEST_GUID:
        raise Invalid("id", "must be an identifier made by Postroom")
    return guid.decode("ascii")


def _in_subject(plain: bytes) -> bytes:
    """Return a plain address as an encoded word, in which only `_` must be escaped."""
    encoded = plain.replace(b"_", b"=5F")
    if len(encoded) <= header_text.LONGEST_ENCODED:
        return b"=?utf-8?q?%b?=" % encoded
    return _words(plain.decode("ascii"))


def _words(text: str) -> bytes:
    return header_text.encoded_words(text, header_text.IN_TEXT).encode("ascii")


def _fill(pieces: list[bytes], positions: Iterable[int], value: bytes) -> None:
    for position in positions:
        pieces[position] = value


def _merged(pieces: Pieces) -> Pieces:
    """Join neighbouring bytes."""
    merged: Pieces = []
    run: list[bytes] = []
    for each in pieces:
        if isinstance(each, bytes):
            run.append(each)
        else:
            merged += [b"".join(run), each]
            run = []
    return [*merged, b"".join(run)]
