"""Results by segment: of those who received the message and are in the segment now."""

from __future__ import annotations

import csv
from datetime import UTC, datetime

import msgspec
import pytest

from postroom.cli.support import output
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.hits import PersonHits
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.services.audience.results import segment_results
from postroom.services.audience.results.people import PeopleRows
from postroom.services.audience.targeting import rule_rows
from postroom.services.messages.message_contents import NewBodies
from postroom.services.resources.results import describe_segment_results
from tests.integration.usecases.pages import sent_message
from tests.web.site import Site

NEWS = ListName("news")
MANY = 12


@pytest.fixture
async def message(site: Site) -> Message:
    """Sent to twelve, of whom the last is refused. Those with even numbers live in Bern; all but
    the first agree to tracking; 2, 3 and 4 open, and 2 and 3 click; the email to 6 bounces."""
    services = site.services
    await services.lists.create(NEWS, "News", "news@contoso.example")
    await services.fields.declare(NEWS, [Field("city")])
    people = []
    for number in range(MANY):
        city = "Bern" if number % 2 == 0 else "Basel"
        added = await services.subscriptions.add(
            NEWS, f"u{number:02}@example.com", verified=True, attributes={"city": city}
        )
        people.append(added)
        if number:
            agreed = msgspec.structs.replace(added, tracking=True)
            await services.subscriber_rows.save(added, agreed, added.etag)
    outcomes = [EmailOutcome.ACCEPTED] * (MANY - 1) + [EmailOutcome.REFUSED]
    at = datetime.now(UTC)
    found = await sent_message(services, NEWS, NewBodies("<p>Hi</p>"), outcomes, at, Track.PERSONAL)
    await PeopleRows(site.services.store).record(
        found.ref,
        {
            people[number].guid: PersonHits(at, at if number < 4 else None, frozenset({1}))
            for number in (2, 3, 4)
        },
    )
    bounce = Bounce(
        BounceKind.FULL, "an event", BounceSource.SMTP, at, NEWS, address=people[6].address,
        ref=found.ref, diagnostic="552 full", status="5.2.2", by_code=True,
    )  # fmt: skip
    await services.suppressions.record(bounce)
    await services.segments.create(NEWS, "basel", 'city = "Basel"')
    await services.segments.create(NEWS, "bern", 'city = "Bern"')
    await services.segments.create(NEWS, "clicked-it", f"clicked {found.ref}")
    return found


async def test_page_file_api_and_command_show_the_same_numbers(
    site: Site, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = (await site.services.keys.create("of the test")).secret
    answer = await site.visitor().http.get(
        f"/api/v1/messages/{message.ref}/results/segments",
        headers={"Authorization": f"Bearer {key}"},
    )
    expected = [
        {"segment": "basel", "accepted": 5, "bounced": 0, "agreed": 5, "opened": 1, "clicked": 1},
        {"segment": "bern", "accepted": 6, "bounced": 1, "agreed": 5, "opened": 2, "clicked": 1},
    ]
    assert answer.json() == {"segments": expected}
    user = await site.user()
    text = (await user.get(f"/messages/{message.ref}/segments.csv")).text
    rows = list(csv.DictReader(text.splitlines()))
    assert rows == [{name: str(value) for name, value in each.items()} for each in expected]
    whole = await user.get(f"/messages/{message.ref}/segments")
    assert "40.0" in whole.text, "of the five who agreed, two opened"
    page = (await user.get(f"/messages/{message.ref}")).text
    place = page.partition('<div id="segments"')[2].partition("</section>")[0]
    assert place.count("<i></i>") > 2 * len(expected), "its place is kept until they are counted"
    described = describe_segment_results(
        message,
        (
            await site.services.segment_results.read(
                message, await site.services.segment_results.segments(message)
            )
        ).figures,
    )
    assert output.builtins(described) == answer.json()

    # A long list is counted in steps, each of which says where the next one continues.
    monkeypatch.setattr(rule_rows, "AT_ONCE", 5)
    monkeypatch.setattr(segment_results, "AT_ONCE", 5)
    monkeypatch.setattr("postroom.web.admin.messages.segment_results_page._SECONDS", 0.0)
    url, steps = f"/messages/{message.ref}/segments", 0
    while True:
        page = (await user.get(url)).text
        if 'hx-get="' not in page:
            break
        steps += 1
        url = page.partition('hx-get="')[2].partition('"')[0].replace("&amp;", "&")
    assert steps == 2
    assert page == whole.text
    assert (await user.get(f"{url}&counted=1.x")).status_code == 200


async def test_a_segment_whose_rule_cannot_be_evaluated_is_left_out(
    site: Site, message: Message
) -> None:
    await site.services.fields.declare(NEWS, [])
    segments = await site.services.segment_results.segments(message)
    assert segments == []
    user = await site.user()
    assert "By segment" not in (await user.get(f"/messages/{message.ref}/segments")).text
    assert 'id="segments"' not in (await user.get(f"/messages/{message.ref}")).text
