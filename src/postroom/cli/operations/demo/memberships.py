"""The people of the demo: who joins, confirms and leaves, and when. No I/O.

Fewer people join at weekends, a campaign brings many within days, and messages make some leave.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import product
from typing import Final

import msgspec

from postroom.cli.operations.demo.plans import DAYS, ListPlan
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.services.audience.growth.list_movements import Movement

_NAMES: Final = (
    *("ada", "amir", "bela", "carmen", "chidi", "dana", "elif", "emil", "fatou", "george"),
    *("hana", "igor", "ines", "jonas", "keiko", "lars", "lucia", "mateo", "mina", "nadia"),
    *("noor", "olga", "oscar", "paulo", "priya", "quinn", "rosa", "sami", "tariq", "ulla"),
    *("vera", "wanda", "xavier", "yara", "yuki", "zoe"),
)
_SURNAMES: Final = (
    *("adler", "bauer", "costa", "diaz", "ekwueme", "farkas", "garcia", "haddad", "ito", "jensen"),
    *("kaya", "lopez", "meyer", "novak", "okafor", "petrov", "quist", "rossi", "silva", "tanaka"),
    *("ueda", "varga", "weber", "xu", "yilmaz", "zimmer", "almeida", "brandt", "cohen", "dubois"),
    *("eriksen", "fischer", "greco", "horvat", "ivanova", "jansen"),
)
CITIES: Final = ("Berlin", "Lisbon", "Lyon", "Milan", "Oslo", "Seoul", "Vienna", "Zurich")
_DOMAINS: Final = (  # RFC 2606: nobody's
    *("example.com", "example.net", "example.org"),
    *("mail.example.com", "post.example.net", "inbox.example.org"),
)
_WEEK: Final = (1.15, 1.2, 1.1, 1.0, 0.9, 0.45, 0.5)  # from Monday
_CONFIRM: Final = 0.93  # share of those who sign up
_CHURN: Final = 0.0006  # share of all subscribers who leave on a day
_LEAVE_AFTER_MESSAGE: Final = 0.0022
_JUMP_DAYS: Final = 6
_DEAD: Final = 0.004  # share of all addresses whose mailbox is gone

_WAYS: Final = (  # ways to a list, with cumulative percentages
    (74, Movement(form=1)),
    (88, Movement(imported=1)),
    (96, Movement(api=1)),
    (100, Movement(team=1)),
)


class DemoPerson(msgspec.Struct):
    """Someone who is on a list, or was. The mailbox of a `dead` address is gone, and the address is
    suppressed from the first message to it on."""

    address: Address
    guid: SubscriberGuid
    joined: datetime
    verified_at: datetime | None
    left_at: datetime | None = None
    dead: bool = False
    suppressed_at: datetime | None = None

    @property
    def attributes(self) -> dict[str, str]:
        """Return what the list knows about them: everyone's name, and the city of most."""
        first, last = self.address.partition("@")[0].split(".")
        number = int(self.guid[:8], 16)
        known = {"first_name": first.title(), "last_name": last.title()}
        return known | ({"city": CITIES[number % len(CITIES)]} if number % 10 else {})

    def is_on(self, at: datetime) -> bool:
        return self.joined <= at and (self.left_at is None or self.left_at > at)

    def may_receive(self, at: datetime) -> bool:
        if self.suppressed_at is not None and self.suppressed_at <= at:
            return False
        return self.is_on(at) and self.verified_at is not None and self.verified_at <= at


def invent(
    plan: ListPlan, sent: Sequence[datetime], dice: random.Random, now: datetime
) -> list[DemoPerson]:
    """Return everyone who was on a list in the last 90 days; `sent` are messages' times."""
    addresses = _addresses(dice)
    people = [
        _person(next(addresses), now - timedelta(days=dice.uniform(DAYS, plan.age)), dice, now)
        for _ in range(plan.before)
    ]
    for ago in range(min(DAYS, plan.age), -1, -1):
        day = now - timedelta(days=ago)
        for _ in range(_about(_expected(plan, ago, day.date()), dice)):
            moment = _daytime(day, dice)
            if moment <= now:
                people.append(_person(next(addresses), moment, dice, now))
        _let_leave(people, day, sent, dice, now)
    return people


def totals(people: Sequence[DemoPerson], days: Sequence[date]) -> dict[date, tuple[int, int]]:
    """Return how many were on a list, and how many of them had confirmed, at the end of days."""
    changes: dict[date, list[int]] = {}

    def count(at: datetime | None, subscribers: int, verified: int) -> None:
        if at is not None:
            change = changes.setdefault(max(at.date(), days[0]), [0, 0])
            change[0] += subscribers
            change[1] += verified

    for person in people:
        count(person.joined, 1, 0)
        count(person.verified_at, 0, 1)
        count(person.left_at, -1, -1 if person.verified_at else 0)
    result: dict[date, tuple[int, int]] = {}
    subscribers = verified = 0
    for day in days:
        change = changes.get(day, (0, 0))
        subscribers, verified = subscribers + change[0], verified + change[1]
        if subscribers or result:  # not before a list was created
            result[day] = (subscribers, verified)
    return result


def movements(people: Sequence[DemoPerson], days: Sequence[date]) -> dict[str, Movement]:
    """Return how many joined and left on each of these days, most of them without the team's
    help."""
    found: dict[str, Movement] = {}

    def count(at: datetime | None, movement: Movement) -> None:
        if at is not None and days[0] <= at.date() <= days[-1]:
            day = at.date().isoformat()
            found[day] = found.get(day, Movement()) + movement

    for person in people:
        number = int(person.guid[:8], 16) % 100
        way = next(way for share, way in _WAYS if number < share)
        count(person.joined, way)
        count(person.left_at, Movement(unsubscribed=1) if number % 12 else Movement(removed=1))
    return found


def _expected(plan: ListPlan, ago: int, day: date) -> float:
    trend = 0.8 + 0.5 * (DAYS - ago) / DAYS
    since_jump = plan.jump_days - ago
    jump = plan.jump * 0.5 ** (since_jump + 1) if 0 <= since_jump < _JUMP_DAYS else 0.0
    return plan.daily * trend * _WEEK[day.weekday()] + jump


def _let_leave(
    people: list[DemoPerson],
    day: datetime,
    sent: Sequence[datetime],
    dice: random.Random,
    now: datetime,
) -> None:
    share = _CHURN
    share += sum(_LEAVE_AFTER_MESSAGE for at in sent if 0 <= (day.date() - at.date()).days < 2)
    for _ in range(_about(share * len(people), dice)):
        person, moment = dice.choice(people), _daytime(day, dice)
        known = person.verified_at or person.joined
        if person.left_at is None and known < moment <= now:
            person.left_at = moment


def _person(address: str, joined: datetime, dice: random.Random, now: datetime) -> DemoPerson:
    verified_at = joined + timedelta(minutes=dice.expovariate(1 / 40) + 1)
    confirms = dice.random() < _CONFIRM and verified_at <= now
    guid = SubscriberGuid(str(uuid.UUID(int=dice.getrandbits(128), version=4)))
    dead = dice.random() < _DEAD
    return DemoPerson(Address(address), guid, joined, verified_at if confirms else None, dead=dead)


def _addresses(dice: random.Random) -> Iterator[str]:
    every = list(product(_NAMES, _SURNAMES, _DOMAINS))
    dice.shuffle(every)
    return (f"{name}.{surname}@{domain}" for name, surname, domain in every)


def _about(mean: float, dice: random.Random) -> int:
    return max(0, round(dice.gauss(mean, mean**0.5)))


def _daytime(day: datetime, dice: random.Random) -> datetime:
    """Return a moment of a day, mostly between morning and evening."""
    hour = min(max(dice.gauss(14, 4), 0), 23.99)
    return day.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(hours=hour)
