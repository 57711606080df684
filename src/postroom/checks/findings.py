"""What a check finds."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class FindingState(StrEnum):
    OK = "OK"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
    """What was found about one part, and what to do about it."""

    part: str
    state: FindingState
    text: str
    advice: str = ""


def one_line(exc: BaseException) -> str:
    return " ".join(str(exc).split())
