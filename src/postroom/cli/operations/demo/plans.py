"""The lists of the demo, how they grow, and what was sent to them."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

DAYS: Final = 90
"""How long the history is."""


class Edition(msgspec.Struct, frozen=True):
    """A message. `days` is how long ago it was sent, at an hour (UTC); below 0, it is scheduled."""

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
    (main, label, _), *others = LINKS
    base = f"https://www.example.com/{plan.name}"
    more = " · ".join(
        f'<a href="{base}/{path}" style="color: #27509b">{text}</a>' for path, text, _ in others
    )
    return f"""<!doctype html>
<html lang="en"><body style="margin: 0; background: #f1f0ec; color: #24221e;
font: 16px/1.6 system-ui, sans-serif">
<div style="max-width: 36rem; margin: 0 auto; padding: 24px 16px">
<p style="margin: 0 16px 16px; font-weight: 600">{plan.description}</p>
<div style="padding: 32px 24px; border-radius: 8px; background: #ffffff">
<h1 style="margin: 0 0 12px; font-size: 28px; line-height: 1.25">{mailing.subject}</h1>
<p style="margin: 0 0 24px">{mailing.text}</p>
<p style="margin: 0 0 24px"><a href="{base}/{main}" style="display: inline-block;
padding: 10px 20px; border-radius: 6px; background: #27509b; color: #ffffff; font-weight: 600;
text-decoration: none">{label}</a></p>
<p style="margin: 0">{more}</p>
</div>
<p style="margin: 16px; color: #5c574d; font-size: 13px">This message is part of a demo, and so is
everyone on its list. You read it as {{{{ email }}}}.
<a href="{{{{ unsubscribe_url }}}}" style="color: #5c574d">Unsubscribe from
{{{{ list_description }}}}</a></p>
</div>
</body></html>
"""


class DraftPlan(msgspec.Struct, frozen=True):
    """A message that someone is writing: a heading, a text, and maybe a button."""

    list_name: str
    subject: str
    heading: str
    text: str
    button: str = ""

    @property
    def source(self) -> str:
        blocks: list[dict[str, Any]] = [
            {"type": "heading", "text": self.heading, "level": 1},
            {"type": "text", "html": f"<p>{self.text}</p>"},
        ]
        if self.button:
            link = f"https://www.example.com/{self.list_name}"
            blocks.append({"type": "button", "text": self.button, "link": link})
        return json.dumps({"version": 1, "blocks": blocks})


DRAFTS: Final = (
    DraftPlan(
        "garden-club",
        "The garden in December",
        "Before the frost",
        "Wrap the pots, empty the rain barrels, and bring the tools inside.",
    ),
    DraftPlan(
        "contoso-news",
        "Advent calendar: 24 small things",
        "One door a day",
        "Behind each is something that our growers made.",
        "Open the first door",
    ),
)
