"""The templates that come with Postroom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from postroom.composing.layouts import Layout, partial

PICTURE: Final = "https://pictures.example/header.png"
"""Stands for the picture of an example: there is no such file."""


class BuiltInTemplate(msgspec.Struct, frozen=True):
    """A template with its description in the gallery, and an example that shows it."""

    name: str
    title: str
    description: str
    example_slots: Mapping[str, str] = {}
    example: str = ""
    """In Markdown."""

    @property
    def layout(self) -> Layout:
        return Layout(partial(self.name))


_ALL: Final = (
    BuiltInTemplate(
        "letter",
        "Plain letter",
        "Looks like a personal email: your logo, your words, a quiet footer.",
        example="""\
Dear members,

the garden is asleep, but we are not: the new shed stands, the seed catalogue is printed, and the
annual meeting is on **Saturday, 12 December**.

If you want to help with the winter pruning, just reply to this email. We bring the shears and the
tea.

Warm regards\\
Anna Keller
""",
    ),
    BuiltInTemplate(
        "newsletter",
        "Newsletter",
        "A header picture, a headline and your stories.",
        {
            "issue": "November 2026",
            "title": "Winter in the garden",
            "picture": PICTURE,
            "picture_alt": "Snow on the branches of an apple tree",
        },
        """\
The last apples are in, the paths are swept, and the greenhouse is warm. Here is what happens until
spring.

## Pruning days

On the first two Saturdays of December we prune the apple trees. Beginners are welcome: old hands
show how it is done.

> A tree that is pruned in winter thanks you in summer.

## New seeds

The [seed catalogue](https://example.com/seeds) has 40 new varieties, among them three tomatoes that
do not mind a rainy July.
""",
    ),
    BuiltInTemplate(
        "announcement",
        "Announcement",
        "One piece of news, large, with one button.",
        {
            "kicker": "New",
            "title": "The seed library is open",
            "button_link": "https://example.com/seeds",
            "button_text": "Browse the seeds",
        },
        """\
From today you can borrow seeds as you borrow books: take a packet in spring, bring one back in
autumn.

More than **200 varieties** are waiting, from old beans to new tomatoes. Membership is free.
""",
    ),
    BuiltInTemplate(
        "digest",
        "Digest",
        "A list of posts with short texts, for blogs and news sites.",
        {
            "issue": "No. 48",
            "title": "This week in the garden",
            "intro": "Three stories to read over a cup of tea.",
        },
        """\
## [Why apple trees need a hard winter](https://example.com/apples)

Without frost, no fruit: what happens inside the buds while we sit by the stove.

## [Compost, the slow way](https://example.com/compost)

Two bins, no turning, and patience. A reader has tried it for five years.

## [A bench made of one plank](https://example.com/bench)

A saw, twelve screws and an afternoon.
""",
    ),
    BuiltInTemplate(
        "invitation",
        "Event invitation",
        "What, when and where at a glance, with a button to sign up.",
        {
            "title": "Winter solstice in the garden",
            "date": "Monday, 21 December, 5 pm",
            "place": "Community garden, 1 Main Street",
            "button_link": "https://example.com/solstice",
            "button_text": "Reserve a seat",
        },
        """\
We light the fire when the sun goes down. There is soup, mulled cider, and music by the garden
choir.

Bring a cup and somebody who likes to sing. Children are welcome.
""",
    ),
    BuiltInTemplate(
        "notice",
        "Notice",
        "Short and matter-of-fact, for changes and reminders.",
        {
            "title": "The garden is closed on 2 and 3 December",
            "button_link": "https://example.com/hours",
            "button_text": "Opening hours",
        },
        """\
The water pipes are being replaced, so the gates stay closed on both days. The greenhouse is open
again from **4 December, 9 am**.
""",
    ),
)

BUILT_IN: Final[Mapping[str, BuiltInTemplate]] = {each.name: each for each in _ALL}
