"""Values of a list's fields within an email, encoded for their context.

Values come from subscribers: nothing in them may end a header, a tag or a link, or begin a line in
a way that SMTP or a mailbox would misread. Many people share a name, so the last values are kept.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from postroom.mail import header_text
from postroom.mail.bodies.body_encoding import LONGEST_VALUE, quoted
from postroom.mail.personal.content_conditions import MarkerKind
from postroom.mail.personal.slots import BranchSlot, FieldSlot, Pieces, ValuePlace

_REMEMBERED: Final = 4096  # values of each kind
_MOST_PLAIN: Final = 16_384  # values of one field of a message: one or two megabytes
_PLAIN: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -,."
_BODIES: Final = (ValuePlace.TEXT, ValuePlace.HTML)
_IN_A_URL: Final = ":/?#[]@!$&'()*+,;=%~-._"
_LINK: Final = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class FieldPlaces:
    """The places of one field in an email, which get the same value in different encodings."""

    def __init__(self, slots: Mapping[int, FieldSlot]) -> None:
        """`slots` are by their positions among the pieces of the email."""
        first = next(iter(slots.values()))
        self._number, self._default = first.number, first.default
        encoders = {position: _encoder_of(slot) for position, slot in slots.items()}
        in_bodies = {each for each, slot in slots.items() if slot.place in _BODIES}
        self._in_bodies = [each for each in encoders.items() if each[0] in in_bodies]
        self._elsewhere = [each for each in encoders.items() if each[0] not in in_bodies]
        self._plain: dict[str, bytes] = {}
        """Values that are the same in text and HTML: most are, and many people share a name."""

    def fill(self, columns: list[list[bytes]], values: Sequence[Sequence[str]]) -> None:
        """Insert the values of all recipients. One without values is an example."""
        number, default = self._number, self._default
        texts = [(each[number] if each else "") or default for each in values]
        for position, encode in self._elsewhere:
            columns[position] = [encode(each) for each in texts]
        if self._in_bodies:
            self._fill_bodies(columns, texts)

    def _fill_bodies(self, columns: list[list[bytes]], texts: Sequence[str]) -> None:
        known = self._plain
        try:
            column = [known[each] for each in texts]
        except KeyError:  # some are new, or need to be encoded
            plain = [known.get(each) or self._as_plain(each) for each in texts]
            for position, encode in self._in_bodies:
                columns[position] = [
                    encode(text) if same is None else same
                    for text, same in zip(texts, plain, strict=True)
                ]
        else:
            for position, _ in self._in_bodies:
                columns[position] = column

    def _as_plain(self, value: str) -> bytes | None:
        """Return a value that needs no encoding in bodies, and remember it; None if it does."""
        plain = value.encode("utf-8", "replace")
        if (
            plain.translate(None, _PLAIN)
            or len(plain) > LONGEST_VALUE
            or plain[:1] == b"."
            or plain[-1:] == b" "
            or plain[:5] == b"From "
        ):
            return None
        if len(self._plain) < _MOST_PLAIN:
            self._plain[value] = plain
        return plain


class BranchPlaces:
    """The parts of an email for recipients who meet a condition, and those for everyone else."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.then: list[int] = []
        self.otherwise: list[int] = []

    def holds(self, values: Sequence[str]) -> bool:
        return bool(values and values[self._number])

    def fill(self, columns: list[list[bytes]], values: Sequence[Sequence[str]]) -> None:
        """Empty what is not for a recipient."""
        holds = [self.holds(each) for each in values]
        for positions, is_kept in ((self.then, True), (self.otherwise, False)):
            for position in positions:
                columns[position] = [
                    each if is_met is is_kept else b""
                    for each, is_met in zip(columns[position], holds, strict=True)
                ]


def branch_places(pieces: Pieces) -> list[BranchPlaces]:
    """Return the places of all conditions in an email."""
    found: dict[int, BranchPlaces] = {}
    places: list[int] | None = None
    for position, each in enumerate(pieces):
        if isinstance(each, BranchSlot):
            branch = found.setdefault(each.number, BranchPlaces(each.number))
            ends = {MarkerKind.IF: branch.then, MarkerKind.ELSE: branch.otherwise}
            places = ends.get(each.kind)
        elif places is not None:
            places.append(position)
    return list(found.values())


def field_places(pieces: Pieces) -> list[FieldPlaces]:
    """Return the places of all fields in an email."""
    found: dict[tuple[int, str], dict[int, FieldSlot]] = {}
    for position, each in enumerate(pieces):
        if isinstance(each, FieldSlot):
            found.setdefault((each.number, each.default), {})[position] = each
    return [FieldPlaces(slots) for slots in found.values()]


def _encoder_of(slot: FieldSlot) -> Callable[[str], bytes]:
    """Return the function that encodes a value for its place in an email."""
    if slot.place is ValuePlace.SUBJECT:
        return _IN_SUBJECT[slot.fold_before, slot.fold_after]
    return _ENCODERS[slot.place]


def escaped(slot: FieldSlot, values: Sequence[str]) -> str:
    """Return a recipient's value for a part that an email provider encodes."""
    return _ESCAPES[slot.place](slot.value(values))


def _in_header(value: str) -> str:
    return " ".join(_CONTROLS.sub(" ", value).split())


def _in_text(value: str) -> str:
    return _CONTROLS.sub("", value.replace("\r\n", "\n").replace("\r", "\n"))


def _in_html(value: str) -> str:
    return html.escape(_in_text(value))


def _link(value: str) -> str:
    """Return a value that is a link as such, and any other one as a relative path: `javascript:`
    and the like lose their meaning."""
    if _LINK.fullmatch(value):
        return html.escape(quote(value, safe=_IN_A_URL))
    return _in_link(value)


def _in_link(value: str) -> str:
    return quote(value, safe="")


_ESCAPES: Final[Mapping[ValuePlace, Callable[[str], str]]] = {
    ValuePlace.SUBJECT: _in_header,
    ValuePlace.TEXT: _in_text,
    ValuePlace.HTML: _in_html,
    ValuePlace.LINK: _link,
    ValuePlace.IN_LINK: _in_link,
}


def _encoder(place: ValuePlace) -> Callable[[str], bytes]:
    escape = _ESCAPES[place]
    return lru_cache(_REMEMBERED)(lambda value: quoted(escape(value)))


_ENCODERS: Final = {
    place: _encoder(place) for place in ValuePlace if place is not ValuePlace.SUBJECT
}


def _subject_encoder(before: bool, after: bool) -> Callable[[str], bytes]:
    begin, end = (header_text.FOLD if each else "" for each in (before, after))

    def encode(value: str) -> bytes:
        if value.isalnum() and value.isascii() and len(value) <= header_text.LONGEST_ENCODED:
            return f"{begin}=?utf-8?q?{value}?={end}".encode("ascii")
        line = _in_header(value)
        words = header_text.encoded_words(line, header_text.IN_TEXT) if line else ""
        return f"{begin}{words}{end}".encode("ascii") if words else b""

    return lru_cache(_REMEMBERED)(encode)


_IN_SUBJECT: Final = {
    (before, after): _subject_encoder(before, after)
    for before in (False, True)
    for after in (False, True)
}
