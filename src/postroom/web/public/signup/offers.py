"""What a sign-up form asks for, for one list or a choice of several.

What several of the lists ask for is asked once: a field that all of them declare in the same way,
and the same consent text. The rest belongs to one list, and counts only if that is chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import msgspec

from postroom.domain.audience.fields import Field, Fields
from postroom.domain.audience.lists.lists import ListName, MailingList
from postroom.web.public.field_inputs import Naming, input_name, shown_fields

_OF_LIST: Final = "@"


class Questions(msgspec.Struct, frozen=True):
    """What a form asks for in one place: fields, texts to agree to, and what to read before."""

    fields: tuple[Field, ...] = ()
    consents: tuple[str, ...] = ()
    privacy_url: str = ""

    def __bool__(self) -> bool:
        return bool(self.fields or self.consents or self.privacy_url)


class OfferedList(msgspec.Struct, frozen=True):
    """One of the lists of a form, with all of its fields. `alone` is asked for this list only."""

    mailing_list: MailingList
    fields: Fields
    alone: Questions = Questions()

    @property
    def name(self) -> ListName:
        return self.mailing_list.name

    @property
    def shown(self) -> list[Field]:
        return shown_fields(self.mailing_list, self.fields)


class Offer:
    """The lists of a form. `only` is the list, unless there is a choice of several; `together` is
    what is asked once for several of them, or for the only one."""

    def __init__(self, lists: Sequence[tuple[MailingList, Fields]]) -> None:
        offered = [OfferedList(each, fields) for each, fields in lists]
        self.only = offered[0].mailing_list if len(offered) == 1 else None
        self._ambiguous = _ambiguous([each.shown for each in offered])
        self.together = self._together(offered)
        self.lists = tuple(
            msgspec.structs.replace(each, alone=self._alone(each)) for each in offered
        )

    def _together(self, offered: Sequence[OfferedList]) -> Questions:
        least = 1 if self.only else 2
        declared: dict[str, list[Field]] = {}
        for field in (field for each in offered for field in each.shown):
            declared.setdefault(field.name, []).append(field)
        fields = (
            msgspec.structs.replace(same[0], required=any(each.required for each in same))
            for name, same in declared.items()
            if len(same) >= least and name not in self._ambiguous
        )
        consents = Counter(each.mailing_list.consent_text for each in offered)
        return Questions(
            tuple(fields),
            tuple(text for text, lists in consents.items() if text and lists >= least),
            common(each.mailing_list.privacy_url for each in offered),
        )

    def _alone(self, offered: OfferedList) -> Questions:
        together, mailing_list = self.together, offered.mailing_list
        asked = {each.name for each in together.fields}
        text, link = mailing_list.consent_text, mailing_list.privacy_url
        return Questions(
            tuple(each for each in offered.shown if each.name not in asked),
            () if not text or text in together.consents else (text,),
            "" if link == together.privacy_url else link,
        )

    @property
    def mailing_lists(self) -> list[MailingList]:
        return [each.mailing_list for each in self.lists]

    @property
    def with_proof(self) -> list[ListName]:
        """The lists that ask for a proof of work."""
        return [each.name for each in self.lists if each.mailing_list.proof_of_work]

    @property
    def asks_tracking(self) -> bool:
        return any(each.ask_tracking for each in self.mailing_lists)

    @property
    def thank_you_url(self) -> str:
        """The page that all lists have after signing up; "" if it is not the same."""
        return common(each.thank_you_url for each in self.mailing_lists)

    @property
    def language(self) -> str:
        """The language of all lists; "" if it is not the same."""
        return common(each.language for each in self.mailing_lists)

    def naming(self, name: ListName) -> Naming:
        """Return how the inputs for the fields of a list are named: after the list, too, where
        lists mean different things by the same name."""
        return lambda field: (
            f"{input_name(field)}{_OF_LIST}{name}"
            if field in self._ambiguous
            else input_name(field)
        )

    def is_needed(self, field: Field) -> bool:
        """Return whether every list requires a field."""
        return all(
            any(own.name == field.name and own.required for own in each.shown)
            for each in self.lists
        )


def common(values: Iterable[str]) -> str:
    """Return the value that all have, or ""."""
    different = set(values)
    return different.pop() if len(different) == 1 else ""


def _ambiguous(fields: Iterable[Sequence[Field]]) -> frozenset[str]:
    """Return the names under which lists declare different fields."""
    meanings: dict[str, set[Hashable]] = {}
    for each in (field for of_list in fields for field in of_list):
        meaning = each.type, each.choices, each.max_length
        meanings.setdefault(each.name, set()).add(meaning)
    return frozenset(name for name, found in meanings.items() if len(found) > 1)
