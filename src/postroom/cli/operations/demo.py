"""`postroom up --demo`: two lists with subscribers, a message that goes out now, one for later.

Every page then has something to show. Nothing is made where there is a list already, and the demo
wants a transport that sends nothing: its addresses are nobody's (RFC 2606).
"""

from __future__ import annotations

import io
import random
from datetime import UTC, datetime, timedelta

from postroom.domain.errors import NotNow
from postroom.services.messages.message_contents import NewBodies
from postroom.settings import Settings
from postroom.transport.registry import sends_mail
from postroom.wiring import Services

_GARDEN = "garden-club"
_SHOP = "contoso-news"
_NAMES = (
    *("ada", "amir", "bela", "carmen", "chidi", "dana", "elif", "emil", "fatou", "george"),
    *("hana", "igor", "ines", "jonas", "keiko", "lars", "lucia", "mateo", "mina", "nadia"),
    *("noor", "olga", "oscar", "paulo", "priya", "quinn", "rosa", "sami", "tariq", "ulla"),
    *("vera", "wanda", "xavier", "yara", "yuki", "zoe"),
)
_DOMAINS = ("example.com", "example.net", "example.org", "mail.example.com")

_WELCOME_HTML = """<!doctype html>
<html><body style="font-family: sans-serif; max-width: 36rem; margin: auto">
<h1>The garden in November</h1>
<p>Dear member,</p>
<p>the tulips are in, the compost is turned, and on Saturday we prune the apple trees.
Bring gloves; there will be soup.</p>
<p>You read this as {{ email }}.</p>
<p><a href="{{ unsubscribe_url }}">Leave the list “{{ list_description }}”</a></p>
</body></html>
"""
_SALE_HTML = """<!doctype html>
<html><body style="font-family: sans-serif; max-width: 36rem; margin: auto">
<h1>Winter is coming to Contoso</h1>
<p>From Monday on: everything that keeps you warm, at a third less.</p>
<p><a href="{{ unsubscribe_url }}">No more of these</a></p>
</body></html>
"""


async def fill_with_examples(services: Services, settings: Settings) -> bool:
    """Make the demo's data; False where lists are there already. `NotNow` with a real transport."""
    if sends_mail(settings.transport.url):
        raise NotNow("--demo sends to made-up people: leave the transport at outbox:")
    if (await services.lists.page(limit=1)).lists:
        return False
    dice = random.Random(1)  # noqa: S311 - everybody's demo looks the same
    await _make_list(services, dice, _GARDEN, "Garden club", "garden@example.com", 240)
    await _make_list(services, dice, _SHOP, "Contoso news", "news@example.com", 1200)
    now = datetime.now(UTC)
    await services.messages.create(
        _GARDEN, "The garden in November", NewBodies(_WELCOME_HTML, None), now
    )
    await services.messages.create(
        _SHOP, "Winter is coming: a third off", NewBodies(_SALE_HTML, None), now + timedelta(days=3)
    )
    return True


async def _make_list(
    services: Services, dice: random.Random, name: str, description: str, sender: str, size: int
) -> None:
    await services.lists.create(name, description, sender)
    lines = ["email,verified"]
    for number in range(size):
        address = f"{dice.choice(_NAMES)}.{number}@{dice.choice(_DOMAINS)}"
        lines.append(f"{address},{'true' if dice.random() < 0.92 else 'false'}")
    await services.imports.import_csv(name, io.BytesIO("\n".join(lines).encode()))
