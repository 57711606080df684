"""The lists of the demo, how they grow, and what was sent to them."""

from __future__ import annotations

from typing import Final

import msgspec

DAYS: Final = 90
"""How long the history is."""


class Edition(msgspec.Struct, frozen=True):
    """A message. `days` is how long ago it was sent, at an hour (UTC); below 0, it is to come."""

    days: int
    subject: str
    text: str
    hour: int = 9


class ListPlan(msgspec.Struct, frozen=True):
    """A list and its growth.

    It had `before` subscribers 90 days ago, or was created `age` days ago. `daily` join on an
    ordinary weekday, `jump` more in the days after the campaign `jump_days` ago.
    """

    name: str
    description: str
    sender: str
    before: int
    daily: float
    age: int = 400
    jump: int = 0
    jump_days: int = 0
    mailings: tuple[Edition, ...] = ()


NEWS: Final = ListPlan(
    "contoso-news",
    "Contoso news",
    "news@example.com",
    before=3_940,
    daily=19,
    jump=420,
    jump_days=38,
    mailings=(
        Edition(84, "Late summer: the best of the market", "Tomatoes, figs and the last peaches."),
        Edition(77, "Back to school, back to the kitchen", "Lunch boxes that come back empty."),
        Edition(70, "Meet the baker of Mill Street", "He gets up when you go to bed."),
        Edition(63, "Autumn catalogue", "Forty pages of wool, wood and warm light."),
        Edition(56, "Three soups for grey days", "Pumpkin, lentil, and the one with the leeks."),
        Edition(49, "How we choose our farms", "Seven questions that we ask every grower."),
        Edition(40, "Birthday week: 20% off everything", "Contoso turns ten. Thank you."),
        Edition(33, "What you bought most", "And what we would have bought instead."),
        Edition(26, "Repair café on Saturday", "Bring a lamp, take a lamp home that works."),
        Edition(19, "New: refill stations", "Bring your jars; the fifth filling is free."),
        Edition(12, "November is for tea", "Six teas and the people who grow them."),
        Edition(2, "Harvest festival", "Music, cider and a very large pumpkin."),
    ),
)
PRODUCT: Final = ListPlan(
    "product-updates",
    "Product updates",
    "product@example.com",
    before=0,
    daily=17,
    age=62,
    jump=150,
    jump_days=26,
    mailings=(
        Edition(54, "Welcome to product updates", "What this list is for, and how often.", 14),
        Edition(40, "Order history in your account", "Find what you bought in 2019.", 14),
        Edition(27, "The app remembers your lists", "Shopping lists are shared now.", 14),
        Edition(13, "Pick-up times by the quarter hour", "And a reminder before each.", 14),
    ),
)
GARDEN: Final = ListPlan(
    "garden-club",
    "Garden club",
    "garden@example.com",
    before=214,
    daily=0.9,
    mailings=(
        Edition(76, "The garden in September", "Seeds, windfalls and a visit to the nursery.", 17),
        Edition(46, "The garden in October", "Tulips go in now. So do the apples.", 17),
        Edition(15, "The garden in November", "On Saturday we prune the apple trees.", 17),
    ),
)
PLANS: Final = (NEWS, PRODUCT, GARDEN)

SEGMENTS: Final = {
    "new-subscribers": "joined within 30 days",
    "berlin": 'city = "Berlin"',
}
"""Each list's segments: names and rules."""

SENT_NOW: Final = Edition(0, "Advent market: the programme", "Four weekends, sixty stalls.")
TO_COME: Final = Edition(-3, "Winter is coming: a third off", "Everything that keeps you warm.")


LINKS: Final = (
    ("read", "Read the whole story", 5),
    ("shop", "Visit the shop", 3),
    ("map", "Find us", 1),
)
"""The links of each message: the end of its address, its text, and how many click it for each click
on another."""


def html_of(plan: ListPlan, mailing: Edition) -> str:
    links = "".join(
        f'<p><a href="https://www.example.com/{plan.name}/{path}">{text}</a></p>\n'
        for path, text, _ in LINKS
    )
    return f"""<!doctype html>
<html><body style="font-family: sans-serif; max-width: 36rem; margin: auto; line-height: 1.5">
<p style="color: #666">{plan.description}</p>
<h1>{mailing.subject}</h1>
<p>{mailing.text}</p>
{links}<p>Dear reader, this message is part of a demo, and so is everyone on its list. You read it
as {{{{ email }}}}.</p>
<p><a href="{{{{ unsubscribe_url }}}}">Unsubscribe from {{{{ list_description }}}}</a></p>
</body></html>
"""
