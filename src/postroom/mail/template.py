"""One mail as bytes with slots: everything is encoded once, recipients are spliced in.

No line of a mail begins with a dot (see `quoted`), so what SMTP's DATA wants is the mail itself.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import Invalid
from postroom.mail import headers
from postroom.mail.envelope import envelope_address, needs_smtputf8
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.placeholders import Parts, Placeholders, Source
from postroom.mail.quoted import LONGEST_GUID, LONGEST_VALUE, Pieces, Slot, quoted

# Most addresses are made of these, and are written the same in headers, text and HTML.
_ALNUM: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_PLAIN: Final = _ALNUM + b"@.+-_"
_IN_GUID: Final = _ALNUM + b"-"
_DIGEST_SIZE: Final = 12  # 96 bits: two of a thousand million emails do not meet


class MessageIds(msgspec.Struct, frozen=True):
    """How the Message-IDs of a mailing look: `<KEY.DIGEST@DOMAIN>`.

    The digest is of the recipient's address within `scope`, so that an email has one Message-ID
    however often it is tried, and nobody reads the address out of it.
    """

    key: str
    domain: str
    scope: str


class SplicedMailing(Mailing):
    """A mailing whose pieces are joined with each recipient's values between them."""

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
        # Some 100,000 of these a second and core: no call that can be spared.
        guid = recipient.guid.encode("utf-8", "replace")
        if guid.translate(None, _IN_GUID) or not 0 < len(guid) <= LONGEST_GUID:
            raise Invalid("id", "is not an identifier of ours")
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
            self._splice_unusual(pieces, recipient.address)
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

    # — For relays that put the values in themselves —

    def parts(self) -> Parts:
        """The mail as text with placeholders."""
        return self._placeholders.parts

    def values(self, recipient: Recipient) -> Mapping[str, str]:
        """Placeholder → what stands there for this recipient, escaped as its place needs."""
        return self._placeholders.values(recipient.address, _checked_guid(recipient))

    def headers(self, recipient: Recipient) -> Mapping[str, str]:
        """The headers that a list's mail has beside the ordinary ones, for this recipient."""
        return self._placeholders.headers(_checked_guid(recipient))

    @cached_property
    def _placeholders(self) -> Placeholders:
        return Placeholders(self._source)

    def _splice_unusual(self, pieces: list[bytes], address: Address) -> None:
        """An address that each place writes in its own way."""
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
        raise Invalid("id", "is not an identifier of ours")
    return guid.decode("ascii")


def _in_subject(plain: bytes) -> bytes:
    """A plain address as an encoded word, in which only `_` means something else."""
    encoded = plain.replace(b"_", b"=5F")
    if len(encoded) <= headers.LONGEST_ENCODED:
        return b"=?utf-8?q?%b?=" % encoded
    return _words(plain.decode("ascii"))


def _words(text: str) -> bytes:
    return headers.encoded_words(text, headers.IN_TEXT).encode("ascii")


def _fill(pieces: list[bytes], positions: Iterable[int], value: bytes) -> None:
    for position in positions:
        pieces[position] = value


def _merged(pieces: Pieces) -> Pieces:
    """Neighbours without a slot between them become one."""
    merged: Pieces = []
    run: list[bytes] = []
    for each in pieces:
        if isinstance(each, bytes):
            run.append(each)
        else:
            merged += [b"".join(run), each]
            run = []
    return [*merged, b"".join(run)]
