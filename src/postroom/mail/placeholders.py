"""Emails as text with placeholders, for providers that insert each recipient's values themselves.

Nothing is encoded here: the provider builds the MIME parts. A placeholder has a random part, so it
occurs in no body, and no address can be chosen to contain one.
"""

from __future__ import annotations

import html
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.mail.body_encoding import BodyPart, Pieces, Slot

_FOLD: Final = "\r\n "
_NAMES: Final = {
    Slot.GUID: "guid",
    Slot.EMAIL_IN_SUBJECT: "subject",
    Slot.EMAIL_IN_TEXT: "text",
    Slot.EMAIL_IN_HTML: "html",
}


class Parts(msgspec.Struct, frozen=True):
    """A message as text with placeholders. HTML and text have different ones, because their values
    are escaped differently."""

    subject: str
    html: str
    text: str
    from_name: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Those that are the same for all, such as List-Id; not From, To, Subject, Date or MIME."""


class Source(msgspec.Struct, frozen=True):
    """What an email was assembled from, before anything was encoded."""

    subject: Sequence[str | Slot]
    from_name: str
    more_headers: Pieces
    parts: Sequence[BodyPart]


class Placeholders:
    def __init__(self, source: Source) -> None:
        texts = [source.subject, *(part.segments for part in source.parts)]
        self._names = _unused_names(each for text in texts for each in text)
        bodies = {part.media_type: self._with_names(part.segments) for part in source.parts}
        self._headers = dict(self._header_lines(source.more_headers))
        self.parts: Final = Parts(
            subject=self._with_names(source.subject),
            html=bodies.get("text/html", ""),
            text=bodies.get("text/plain", ""),
            from_name=source.from_name,
            headers={
                name: value
                for name, value in self._headers.items()
                if self._names[Slot.GUID] not in value
            },
        )
        used = {each for text in texts for each in text if isinstance(each, Slot)}
        self._used = [(slot, name) for slot, name in self._names.items() if slot in used]

    def values(self, address: Address, guid: str) -> dict[str, str]:
        """Return placeholder → value, for those that the message uses."""
        return {
            name: guid
            if slot is Slot.GUID
            else html.escape(address)
            if slot is Slot.EMAIL_IN_HTML
            else address
            for slot, name in self._used
        }

    def headers(self, guid: str) -> dict[str, str]:
        """Return all headers of the list, including those that are the same for all recipients: a
        provider may let a recipient's headers replace the common ones."""
        placeholder = self._names[Slot.GUID]
        return {name: value.replace(placeholder, guid) for name, value in self._headers.items()}

    def _with_names(self, segments: Iterable[str | Slot]) -> str:
        return "".join(self._names[each] if isinstance(each, Slot) else each for each in segments)

    def _header_lines(self, pieces: Pieces) -> Iterator[tuple[str, str]]:
        """Yield names and values, unfolded: the provider folds them again."""
        lines = "".join(
            self._names[each] if isinstance(each, Slot) else each.decode("ascii") for each in pieces
        )
        for line in lines.replace(_FOLD, " ").splitlines():
            name, _, value = line.partition(":")
            yield name, value.strip()


def _unused_names(segments: Iterable[str | Slot]) -> dict[Slot, str]:
    static = [each for each in segments if isinstance(each, str)]
    while True:
        token = secrets.token_hex(8)
        if not any(token in each for each in static):
            return {slot: f"-{token}-{name}-" for slot, name in _NAMES.items()}
