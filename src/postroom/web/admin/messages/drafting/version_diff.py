"""The difference between two texts in a readable form: whole lines, and the words that changed in
them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

import msgspec

_CONTEXT: Final = 2  # unchanged lines around a change
_MOST_WORDS: Final = 2_000  # of a changed part: beyond that, all of it counts as changed
_MOST_LINES: Final = 2_000
_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")


class PieceKind(StrEnum):
    SAME = "same"
    OLD = "old"
    NEW = "new"
    GAP = "gap"


class Piece(msgspec.Struct, frozen=True):
    """Some text: in both versions, in one of them only, or left out because it is the same."""

    kind: PieceKind
    text: str


def differing_pieces(old: str, new: str) -> list[Piece]:
    """Return the changes with a little of what is around them; nothing if the two are the same."""
    if old == new:
        return []
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if max(len(before), len(after)) > _MOST_LINES:
        return _whole(old, new)
    return _joined(_by_line(before, after))


def _by_line(before: list[str], after: list[str]) -> Iterator[Piece]:
    groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT)
    reached = 0
    for group in groups:
        if group[0][1] > reached:
            yield _gap(group[0][1] - reached)
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield Piece(PieceKind.SAME, "".join(before[i1:i2]))
            else:
                yield from _by_word("".join(before[i1:i2]), "".join(after[j1:j2]))
            reached = i2
    if reached < len(before):
        yield _gap(len(before) - reached)


def _by_word(old: str, new: str) -> Iterator[Piece]:
    before, after = _WORD.findall(old), _WORD.findall(new)
    if max(len(before), len(after)) > _MOST_WORDS:
        yield from _whole(old, new)
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield Piece(PieceKind.SAME, "".join(before[i1:i2]))
            continue
        if i2 > i1:
            yield Piece(PieceKind.OLD, "".join(before[i1:i2]))
        if j2 > j1:
            yield Piece(PieceKind.NEW, "".join(after[j1:j2]))


def _whole(old: str, new: str) -> list[Piece]:
    pieces = [Piece(PieceKind.OLD, old), Piece(PieceKind.NEW, new)]
    return [each for each in pieces if each.text]


def _gap(lines: int) -> Piece:
    return Piece(PieceKind.GAP, f"… {lines:,} unchanged line{'' if lines == 1 else 's'} …\n")


def _joined(pieces: Iterator[Piece]) -> list[Piece]:
    """Join neighbours of the same kind."""
    found: list[Piece] = []
    for each in pieces:
        if found and found[-1].kind is each.kind:
            found[-1] = Piece(each.kind, found[-1].text + each.text)
        else:
            found.append(each)
    return found
