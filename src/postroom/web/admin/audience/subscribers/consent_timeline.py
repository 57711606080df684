"""The history of subscriptions as pages show it: from the consent ledger and, for what happened
before there was one, from the subscribers themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from postroom.domain.audience.consent import ConsentAction, ConsentEntry, details_of
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.services.audience.consent.consent_ledger import ConsentHistory
from postroom.services.audience.personal_data import Unsubscribe
from postroom.web.rendering.templating import counted
from postroom.web.requests.visit import Visit

_BEGINNINGS: Final = frozenset(
    {
        ConsentAction.SIGNED_UP,
        ConsentAction.ADDED,
        ConsentAction.ADDED_CONFIRMED,
        ConsentAction.MOVED_IN,
    }
)
_CONFIRMATIONS: Final = (ConsentAction.CONFIRMED, ConsentAction.ADDED_CONFIRMED)
_KINDS: Final = {
    ConsentAction.CONFIRMED: "good",
    ConsentAction.ADDED_CONFIRMED: "good",
    ConsentAction.BLOCKED: "bad",
    ConsentAction.UNCONFIRMED: "warn",
    ConsentAction.UNSUBSCRIBED: "warn",
    ConsentAction.REMOVED: "warn",
}


class TimelineEntry(msgspec.Struct, frozen=True):
    """One event. `url` leads to the list or message that it is about."""

    at: datetime
    text: str
    about: str
    url: str
    kind: str = ""
    detail: str = ""


class LedgerState(msgspec.Struct, frozen=True):
    """Whether the entries about a person are intact, in words."""

    text: str
    is_intact: bool


class _OfList(Protocol):
    @property
    def list_name(self) -> ListName | None: ...


OfList = TypeVar("OfList", bound=_OfList)


def visible(visit: Visit, entries: Sequence[OfList]) -> list[OfList]:
    """Return the entries of lists that exist for the user, and those about every list."""
    access = visit.access
    return [
        each
        for each in entries
        if each.list_name is None or access.may(ListRight.VIEW, each.list_name)
    ]


def history_of(
    subscriptions: Sequence[Subscriber],
    unsubscribes: Sequence[Unsubscribe],
    consent: Sequence[ConsentHistory],
) -> list[TimelineEntry]:
    """Return everything that happened to the subscriptions of an address, newest first."""
    whole = {each.list_name for each in consent if _is_whole(each)}
    acts = {(each.list_name, entry.act) for each in consent for entry in each.entries}
    reasons = {each.list_name: _why_blocked(each) for each in subscriptions if each.blocked}
    entries = [
        *_of_subscriptions(subscriptions, whole, acts),
        *(
            TimelineEntry(each.left_at, "unsubscribed", each.list_name, _url(each), "warn")
            for each in unsubscribes
            if (each.list_name, ConsentAction.UNSUBSCRIBED) not in acts
        ),
        *(entry for each in consent for entry in _of_consent(each, reasons)),
    ]
    return sorted(entries, key=lambda entry: entry.at, reverse=True)


def ledger_state(consent: Sequence[ConsentHistory]) -> LedgerState | None:
    """Return the state of the ledger; None if it says nothing about a person."""
    for each in consent:
        if each.fault:
            text = f"The consent ledger of list {each.list_name} is damaged: {each.fault}."
            return LedgerState(text, is_intact=False)
    count = sum(len(each.entries) + (each.imported is not None) for each in consent)
    if not count:
        return None
    return LedgerState(f"Consent ledger: {counted(count, 'entry', 'entries')}, intact.", True)


def _is_whole(history: ConsentHistory) -> bool:
    """Return whether the ledger knows how a subscription began."""
    if history.imported is not None:
        return True
    return bool(history.entries) and history.entries[0].act in _BEGINNINGS


def _of_subscriptions(
    subscriptions: Iterable[Subscriber],
    whole: set[ListName],
    acts: set[tuple[ListName, ConsentAction]],
) -> Iterator[TimelineEntry]:
    for each in subscriptions:
        name = each.list_name
        url = f"/lists/{name}/subscribers/{quote(each.address)}"
        if each.blocked and (name, ConsentAction.BLOCKED) not in acts:
            yield TimelineEntry(datetime.now(UTC), _why_blocked(each), name, url, "bad")
        is_recorded = any((name, act) in acts for act in _CONFIRMATIONS)
        if each.verified_at is not None and not is_recorded:
            yield TimelineEntry(each.verified_at, "confirmed", name, url, "good")
        if name not in whole:
            yield TimelineEntry(each.created_at, "signed up or added", name, url)


def _why_blocked(subscriber: Subscriber) -> str:
    is_suppressed = subscriber.is_suppressed
    return subscriber.blocked if is_suppressed else f"blocked: {subscriber.blocked}"


def _of_consent(
    history: ConsentHistory, reasons: Mapping[ListName, str]
) -> Iterator[TimelineEntry]:
    """Yield what the ledger says. The ledger does not know why someone is blocked: the `reasons` of
    those who are now are added to its last entry about it."""
    name, url = history.list_name, _url(history)
    if (imported := history.imported) is not None:
        yield TimelineEntry(imported.at, ConsentAction.IMPORTED.value, name, url)
    blocked = [each for each in history.entries if each.act is ConsentAction.BLOCKED]
    for each in history.entries:
        kind = _KINDS.get(each.act, "")
        is_now = bool(blocked) and each is blocked[-1]
        text = reasons.get(name, each.act.value) if is_now else each.act.value
        yield TimelineEntry(each.at, text, name, url, kind, _detail(each))


def _detail(entry: ConsentEntry) -> str:
    details = details_of(entry)
    notes = [details.origin]
    if details.changed:
        notes.append(f"changed: {', '.join(details.changed)}")
    if details.text_version:
        notes.append(f"consent text {details.text_version}")
    if details.ip_digest:
        notes.append(f"IP digest {details.ip_digest}")
    return " · ".join(each for each in notes if each)


def _url(of: ConsentHistory | Unsubscribe) -> str:
    return f"/lists/{of.list_name}"
