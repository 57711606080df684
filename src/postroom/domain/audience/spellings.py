"""The spellings of an address key: with which upper and lower case letters it may be written.

Messages that were queued before addresses had keys keep their pages in the order of spellings.
There an address is found by jumping from one possible spelling to the next that a page can hold.
"""

from __future__ import annotations

from postroom.domain.audience.addresses import AddressKey, folded


def next_spelling(key: AddressKey, after: str, *, or_same: bool = False) -> str | None:
    """Return the first spelling behind `after` in the order of code points; None: there is none.

    With `or_same`, `after` itself may be it. Only the local part has different spellings.
    """
    choices = _choices(key)
    if or_same and len(after) == len(choices) and _begins(choices, after):
        return after
    # The longest beginning in common with `after` gives the smallest spelling behind it.
    for place in range(min(len(after), len(choices)), -1, -1):
        if not _begins(choices, after[:place]):
            continue
        rest = choices[place:]
        if place == len(after):
            if rest:  # it begins with all of `after`, and is longer
                return after + "".join(each[0] for each in rest)
            continue
        if not rest:
            continue
        larger = [each for each in rest[0] if each > after[place]]
        if larger:
            return after[:place] + larger[0] + "".join(each[0] for each in rest[1:])
    return None


def _choices(key: AddressKey) -> list[list[str]]:
    """Return for each character of the key those that it may stand for, in order."""
    local, at, domain = key.rpartition("@")
    return [*map(_cases, local), *([each] for each in at + domain)]


def _cases(character: str) -> list[str]:
    cases = {character, character.upper(), character.title()}
    return sorted(each for each in cases if len(each) == 1 and folded(each) == character)


def _begins(choices: list[list[str]], text: str) -> bool:
    return all(each in choice for each, choice in zip(text, choices, strict=False))
