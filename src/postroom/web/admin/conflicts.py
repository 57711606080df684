"""Two people changed the same thing: what the other one saved, beside what you typed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Difference(msgspec.Struct, frozen=True):
    """One field, as you have it and as it was saved meanwhile."""

    label: str
    yours: str
    theirs: str


def differences(
    labels: Mapping[str, str], yours: Mapping[str, str], theirs: Mapping[str, str]
) -> list[Difference]:
    """The fields in which the two differ, in the order of `labels`."""
    return [
        Difference(label, yours[name], theirs[name])
        for name, label in labels.items()
        if yours[name].replace("\r\n", "\n") != theirs[name].replace("\r\n", "\n")
    ]
