"""Mailings: what a transport needs to know about the emails that it sends.

A message is bytes with slots: everything is encoded once, and each recipient is inserted. For email
providers that insert the values themselves, it is text with placeholders.

No line of an email begins with a dot (see `body_encoding`), so SMTP's DATA is the email itself.
"""

from __future__ import annotations

import html
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final
from urllib.parse import quote

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.errors import Invalid
from postroom.mail import header_text
from postroom.mail.bodies.attached_files import AttachedFile
from postroom.mail.bodies.body_encoding import LONGEST_GUID, LONGEST_VALUE, BodyPart, quoted
from postroom.mail.bounces.envelope_tokens import EnvelopeTokens, message_id_hash
from postroom.mail.personal.field_values import branch_places, escaped, places_to_fill
from postroom.mail.personal.slots import AnySlot, FieldSlot, Pieces, Segments, Slot, chosen
from postroom.mail.tracking.tracking_tokens import PersonalTokens
from postroom.mail.wire_addresses import envelope_address, needs_smtputf8

# Most addresses consist of these and are the same in headers, text and HTML.
_ALNUM: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_PLAIN: Final = _ALNUM + b"@.+-_"
_IN_GUID: Final = _ALNUM + b"-"
_MOST_VARIANTS: Final = 64
_NAMES: Final = {
    Slot.GUID: "guid",
    Slot.BOUNCE_TOKEN: "token",
    Slot.LINK_TOKEN: "link",
    Slot.EMAIL_IN_SUBJECT: "subject",
    Slot.EMAIL_IN_TEXT: "text",
    Slot.EMAIL_IN_HTML: "html",
    Slot.EMAIL_IN_URL: "url",
}
_OWN: Final = (Slot.GUID, Slot.BOUNCE_TOKEN)  # slots of headers


class Recipient(msgspec.Struct, frozen=True, gc=False):
    """An address, the secret of this subscriber's links, and the values of the fields that the
    message uses, in their order. With `agreed`, they consented to personal tracking."""

    address: Address
    guid: SubscriberGuid
    values: Sequence[str] = ()
    agreed: bool = False


class Mailing(ABC):
    """One message, compiled: everything that is the same for all recipients is built once."""

    from_address: Address
    """For the envelope and the From header."""

    subject: str

    list_name: str = ""
    """The list that it is sent for, which may have its own mail server."""

    envelope: EnvelopeTokens | None = None
    """The envelope senders, if they are not the From address."""

    links: PersonalTokens | None = None
    """The tokens of links, if they differ between recipients."""

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
        envelope: EnvelopeTokens | None = None,
        links: PersonalTokens | None = None,
    ) -> None:
        self.envelope = envelope
        self.links = links
        self.from_address = from_address
        self.subject = subject
        self._ids = ids
        self._source = source
        self._hash = message_id_hash(
            f"{ids.key} {ids.scope} ".encode(),
            b"" if envelope is None else envelope.message_id_key,
        )
        self._pieces = _merged(pieces)
        self._guids = self._positions(Slot.GUID)
        self._tokens = self._positions(Slot.BOUNCE_TOKEN)
        self._link_tokens = self._positions(Slot.LINK_TOKEN)
        self._message_ids = self._positions(Slot.MESSAGE_ID)
        self._in_subject = self._positions(Slot.EMAIL_IN_SUBJECT)
        self._to = self._positions(Slot.TO)
        self._in_text = self._positions(Slot.EMAIL_IN_TEXT)
        self._in_html = self._positions(Slot.EMAIL_IN_HTML)
        self._in_url = self._positions(Slot.EMAIL_IN_URL)
        self._addresses = self._to + self._in_text + self._in_html
        self._branches = branch_places(self._pieces)
        # Conditions come last: they empty what was filled for someone else.
        self._fields = places_to_fill(self._pieces, self._branches)
        self._variants: dict[tuple[bool, ...], SplicedMailing] = {}
        self._static = [each if isinstance(each, bytes) else b"" for each in self._pieces]

    def mail(self, recipient: Recipient) -> bytes:
        # About 100,000 of these per second and core: avoid every call.
        guid = recipient.guid.encode("utf-8", "replace")
        if guid.translate(None, _IN_GUID) or not 0 < len(guid) <= LONGEST_GUID:
            raise Invalid("id", "must be an identifier generated by Postroom")
        address = recipient.address.encode("utf-8", "replace")
        pieces = self._static.copy()
        for position in self._guids:
            pieces[position] = guid
        if (envelope := self.envelope) is not None:
            token = envelope.ready.get(recipient.guid) or envelope.token(recipient.guid)
            encoded = token.encode("ascii")
            for position in self._tokens:
                pieces[position] = encoded
        if (links := self.links) is not None:
            encoded = links.token(recipient.guid, agreed=recipient.agreed)
            for position in self._link_tokens:
                pieces[position] = encoded
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
            if self._in_url:
                in_url = address.replace(b"+", b"%2B")  # all that is to be encoded
                fits = len(in_url) <= LONGEST_VALUE
                _fill(pieces, self._in_url, in_url if fits else _in_url(recipient.address))
        for field in self._fields:
            field.fill(pieces, recipient.values)
        return b"".join(pieces)

    wire = mail  # no line begins with a dot

    def message_id(self, recipient: Recipient) -> str:
        digest = self._hash.copy()
        digest.update(recipient.address.encode("utf-8", "replace"))
        return f"<{self._ids.key}.{digest.hexdigest()}@{self._ids.domain}>"

    @property
    def needs_smtputf8(self) -> bool:
        reply_to = Address(self._source.reply_to)
        return needs_smtputf8(self.from_address) or (bool(reply_to) and needs_smtputf8(reply_to))

    # — For providers that insert the values themselves (`TemplatedMailing`) —

    def parts(self) -> Parts:
        """Return the message as text with placeholders."""
        return self._placeholders.parts

    def values(self, recipient: Recipient) -> Mapping[str, str]:
        """Return placeholder → this recipient's value, escaped for its place."""
        guid, token = _checked_guid(recipient), ""
        if self.links is not None:
            token = self.links.token(recipient.guid, agreed=recipient.agreed).decode("ascii")
        return self._placeholders.values(recipient, guid, token)

    def headers(self, recipient: Recipient) -> Mapping[str, str]:
        """Return this recipient's list headers."""
        guid = _checked_guid(recipient)
        token = "" if self.envelope is None else self.envelope.token(recipient.guid)
        return self._placeholders.headers(guid, token)

    @cached_property
    def _placeholders(self) -> Placeholders:
        return Placeholders(self._source)

    def variant(self, recipient: Recipient) -> SplicedMailing:
        """Return the mailing for everyone who meets the same conditions: itself if it has none."""
        if not self._branches:
            return self
        key = tuple(branch.holds(recipient.values) for branch in self._branches)
        if key not in self._variants:
            if len(self._variants) == _MOST_VARIANTS:
                self._variants.pop(next(iter(self._variants)))
            self._variants[key] = SplicedMailing(
                chosen(self._pieces, recipient.values),
                from_address=self.from_address,
                subject=self.subject,
                ids=self._ids,
                source=self._source.chosen(recipient.values),
                envelope=self.envelope,
                links=self.links,
            )
        return self._variants[key]

    def _insert_unusual(self, pieces: list[bytes], address: Address) -> None:
        """Insert an address that needs a different encoding in each place."""
        _fill(pieces, self._to, envelope_address(address).encode())
        if self._in_text:
            _fill(pieces, self._in_text, quoted(address))
        if self._in_html:
            _fill(pieces, self._in_html, quoted(html.escape(address)))
        if self._in_url:
            _fill(pieces, self._in_url, _in_url(address))
        if self._in_subject:
            _fill(pieces, self._in_subject, _words(address))

    def _positions(self, slot: Slot) -> tuple[int, ...]:
        return tuple(position for position, each in enumerate(self._pieces) if each is slot)


def _checked_guid(recipient: Recipient) -> str:
    guid = recipient.guid.encode("utf-8", "replace")
    if guid.translate(None, _IN_GUID) or not 0 < len(guid) <= LONGEST_GUID:
        raise Invalid("id", "must be an identifier generated by Postroom")
    return guid.decode("ascii")


def _in_subject(plain: bytes) -> bytes:
    """Return a plain address as an encoded word, in which only `_` must be escaped."""
    encoded = plain.replace(b"_", b"=5F")
    if len(encoded) <= header_text.LONGEST_ENCODED:
        return b"=?utf-8?q?%b?=" % encoded
    return _words(plain.decode("ascii"))


def _in_url(address: str) -> bytes:
    return quoted(_url_quoted(address))


def _url_quoted(address: str) -> str:
    """Return an address within a link: the `@` stays, as in `mailto:`."""
    return quote(address, safe="@")


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


class Parts(msgspec.Struct, frozen=True):
    """A message as text with placeholders. HTML and text have different ones, because their values
    are escaped differently."""

    subject: str
    html: str
    text: str
    from_name: str = ""
    reply_to: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Those that are the same for all, such as List-Id; not From, To, Subject, Date or MIME."""
    attachments: Sequence[AttachedFile] = ()


class Source(msgspec.Struct, frozen=True):
    """What an email was assembled from, before anything was encoded."""

    subject: Segments
    from_name: str
    more_headers: Pieces
    parts: Sequence[BodyPart]
    reply_to: str = ""
    attachments: Sequence[AttachedFile] = ()

    def chosen(self, values: Sequence[str]) -> Source:
        """Return the source of what a recipient with these values gets."""
        return msgspec.structs.replace(
            self,
            subject=chosen(self.subject, values),
            parts=[
                msgspec.structs.replace(part, segments=chosen(part.segments, values))
                for part in self.parts
            ],
        )


class Placeholders:
    """An email as text with placeholders, for providers that insert each recipient's values.

    Nothing is encoded here: the provider builds the MIME parts. A placeholder has a random part, so
    it occurs in no body, and no address can be chosen to contain one.
    """

    def __init__(self, source: Source) -> None:
        texts = [source.subject, *(part.segments for part in source.parts)]
        fields = dict.fromkeys(
            each for text in texts for each in text if isinstance(each, FieldSlot)
        )
        self._names = _unused_names([each for text in texts for each in text], list(fields))
        self._fields = {slot: self._names[slot] for slot in fields}
        bodies = {part.media_type: self._with_names(part.segments) for part in source.parts}
        self._headers = dict(self._header_lines(source.more_headers))
        self.parts: Final = Parts(
            subject=self._with_names(source.subject),
            html=bodies.get("text/html", ""),
            text=bodies.get("text/plain", ""),
            from_name=source.from_name,
            reply_to=source.reply_to,
            headers={
                name: value
                for name, value in self._headers.items()
                if not any(self._names[each] in value for each in _OWN)
            },
            attachments=source.attachments,
        )
        used = {each for text in texts for each in text if isinstance(each, Slot)}
        self._used = [(slot, self._names[slot]) for slot in _NAMES if slot in used]

    def values(self, recipient: Recipient, guid: str, link_token: str = "") -> dict[str, str]:
        """Return placeholder → value, for those that the message uses."""
        address = recipient.address
        values = {
            Slot.GUID: guid,
            Slot.LINK_TOKEN: link_token,
            Slot.EMAIL_IN_HTML: html.escape(address),
            Slot.EMAIL_IN_URL: _url_quoted(address),
        }
        found = {name: values.get(slot, address) for slot, name in self._used}
        found |= {name: escaped(slot, recipient.values) for slot, name in self._fields.items()}
        return found

    def headers(self, guid: str, token: str) -> dict[str, str]:
        """Return all headers of the list, including those that are the same for all recipients: a
        provider may let a recipient's headers replace the common ones."""
        of_guid, of_token = (self._names[each] for each in _OWN)
        return {
            name: value.replace(of_guid, guid).replace(of_token, token)
            for name, value in self._headers.items()
        }

    def _with_names(self, segments: Segments) -> str:
        return "".join(each if isinstance(each, str) else self._names[each] for each in segments)

    def _header_lines(self, pieces: Pieces) -> Iterator[tuple[str, str]]:
        """Yield names and values, unfolded: the provider folds them again."""
        lines = "".join(
            each.decode("ascii") if isinstance(each, bytes) else self._names[each]
            for each in pieces
        )
        for line in lines.replace(header_text.FOLD, " ").splitlines():
            name, _, value = line.partition(":")
            yield name, value.strip()


def _unused_names(segments: Segments, fields: Sequence[FieldSlot]) -> dict[AnySlot, str]:
    static = [each for each in segments if isinstance(each, str)]
    while True:
        token = secrets.token_hex(8)
        if not any(token in each for each in static):
            names: dict[AnySlot, str] = {slot: f"-{token}-{name}-" for slot, name in _NAMES.items()}
            return names | {slot: f"-{token}-{each}-" for each, slot in enumerate(fields)}
