"""The results of a message: compared with the last ones, drawn on the message, and the same in
page, file, API and command."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from html import unescape

import msgspec
import pytest

from postroom import clock
from postroom.cli.messages.message_results_command import lines_of
from postroom.cli.support import output
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.mail.tracking.link_marks import LinkMark, with_marks
from postroom.services.audience.results.engagement import Engagement, HourFigure
from postroom.services.messages.message_contents import NewBodies
from postroom.services.resources.results import describe_results
from postroom.wiring import Services
from tests.integration.usecases.pages import fan_out_whole, sent_message, settle
from tests.web.site import Site

NAME = ListName("contoso1")
HTML = """<p>Hello</p><a href="https://www.example.com/one?a=1&amp;b=2">One</a>
<a href='https://www.example.com/two'><img src="x.png" alt="Two"></a>
<a href="{{ unsubscribe_url }}">Leave</a>"""
ONE, TWO = "https://www.example.com/one?a=1&b=2", "https://www.example.com/two"


@pytest.fixture
async def services(site: Site) -> Services:
    await site.services.lists.create(NAME, "Contoso News", "news@contoso.example")
    for number in range(10):
        await site.services.subscriptions.add(NAME, f"u{number}@example.com", verified=True)
    return site.services


async def sent(services: Services, opened: int, *, days: int = 0, refused: int = 0) -> Message:
    outcomes = [EmailOutcome.REFUSED] * refused + [EmailOutcome.ACCEPTED] * (10 - refused)
    at = clock.now() - timedelta(days=days)
    message = await sent_message(services, NAME, NewBodies(HTML), outcomes, at, Track.AGGREGATE)
    await services.link_tables.prepare(message, HTML, "https://mail.example.com")
    began = (message.queued_at or at).strftime("%Y-%m-%dT%H")
    sums = Engagement(opened, 2, 1, 3, 4, {1: 3, 2: 1}, {began: HourFigure(opened, 3)})
    await services.engagement.add(message.ref, "one", sums)
    return message


async def test_a_message_is_compared_with_the_median_of_its_list_before_it(
    services: Services,
) -> None:
    earlier = [await sent(services, opened, days=9 - opened) for opened in (1, 2, 8)]
    message = await sent(services, 5)
    await services.lists.create("other", "Other", "other@contoso.example")
    assert await services.results.comparison(earlier[2]) is None, "two say nothing"
    comparison = await services.results.comparison(message)
    assert comparison is not None
    assert comparison.messages == 3
    assert comparison.rates.opened == 20.0
    assert comparison.rates.delivered == 100.0
    assert comparison.opened_by_hour[:2] == (20.0, 0.0)


async def test_only_the_last_ten_messages_are_compared(services: Services) -> None:
    for number in range(12):
        await sent(services, 10 if number < 2 else 4, days=20 - number)
    comparison = await services.results.comparison(await sent(services, 5))
    assert comparison is not None
    assert (comparison.messages, comparison.rates.opened) == (10, 40.0)


async def test_page_file_api_and_command_have_the_same_rates_and_medians(
    site: Site, services: Services
) -> None:
    for number in range(3):
        await sent(services, number, days=5 - number)
    message = await sent(services, 4, refused=2)
    assert (await services.results.of_message(message)).rates.opened == 50.0
    described = describe_results(await services.results.compared(message))
    expected = output.builtins(described)
    assert expected["rates"]["clicked"] == 37.5
    assert expected["comparison"]["rates"]["opened"] == 10.0
    key = (await services.keys.create("of the test")).secret
    answer = await site.visitor().http.get(
        f"/api/v1/messages/{message.ref}/results", headers={"Authorization": f"Bearer {key}"}
    )
    assert answer.json() == expected
    user = await site.user()
    text = (await user.get(f"/messages/{message.ref}/results.csv")).text
    rows = list(csv.reader(text.splitlines()))
    assert ["rate in percent", "opened", "50.0"] in rows
    assert ["median rate in percent", "opened", "10.0"] in rows
    assert ["accepted by provider", "example.com", "8"] in rows
    page = unescape(" ".join((await user.get(f"/messages/{message.ref}")).text.split()))
    assert "50.0%" in page
    assert "median 10.0%" in page
    assert "Medians are those of your last 3 messages." in page
    assert page.index('id="results-title"') < page.index('id="progress-title"')
    assert page.index('id="progress-title"') < page.index('id="content-title"')
    assert lines_of(described)["opened"].startswith("4 (50.00%; median of the last 3: 10.00%)")


async def test_the_message_shows_where_people_clicked(site: Site, services: Services) -> None:
    message = await sent(services, 5)
    user = await site.user()
    page = await user.get(f"/messages/{message.ref}")
    assert f'src="/messages/{message.ref}/heat-map"' in page.text
    answer = await user.get(f"/messages/{message.ref}/heat-map")
    assert answer.headers["Content-Security-Policy"].startswith("sandbox allow-popups")
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    badges = re.findall(r"<a href=[^>]+><span [^>]+>([^<]+)</span>", answer.text)
    assert badges == ["3 · 75%", "1 · 25%"]
    assert (await services.engagement.of_message(message.ref)).clicked == 3, "nothing counts"


def test_only_links_with_a_mark_get_one_and_the_rest_of_the_document_stays() -> None:
    marks = {TWO: LinkMark("<b>1</b>", 1.0)}
    marked = with_marks(HTML, "https://mail.example.com", marks)
    assert marked.count("<span") == 1
    assert "&lt;b&gt;1&lt;/b&gt;</span><img" in marked
    assert re.sub(r"<span.*?</span>", "", marked) == HTML
    assert with_marks(HTML, "https://mail.example.com", {}) == HTML


async def test_an_unmeasured_message_says_so(site: Site, services: Services) -> None:
    outcomes = [EmailOutcome.ACCEPTED] * 10
    message = await sent_message(services, NAME, NewBodies(HTML), outcomes, clock.now(), Track.OFF)
    page = (await (await site.user()).get(f"/messages/{message.ref}")).text
    assert "tracking was off for this message" in page
    assert "heat-map" not in page
    rates = (await services.results.of_message(message)).rates
    assert msgspec.structs.astuple(rates)[4:] == (None, None, None)


async def test_the_report_is_one_document_with_the_same_numbers(
    site: Site, services: Services
) -> None:
    user = await site.user()
    for number in range(3):
        first = await sent(services, number, days=5 - number)
        alone = (await user.get(f"/messages/{first.ref}/report")).text
        assert "10 recipients: 10 accepted" in alone
        assert "edian" not in alone, "there is nothing to compare it with"
    message = await sent(services, 4, refused=2)
    page = unescape(" ".join((await user.get(f"/messages/{message.ref}/report")).text.split()))
    for shown in ("50.0%", "median 10.0%", "10 recipients: 8 accepted, 2 refused", ONE):
        assert shown in page
    assert 'class="bar-opened"' in page
    assert "uPlot" not in page, "the chart is drawn by the server"
    assert 'data-show="clock"' not in page, "on paper, dates have their year"
    pending = await services.messages.create(NAME, "Later", NewBodies(HTML), clock.now())
    early = (await user.get(f"/messages/{pending.ref}/report")).text
    assert ("No results yet" in early, "scheduled for" in early, "sent" in early) == (
        True,
        True,
        False,
    )


async def test_messages_to_lists_outside_someones_rights_are_not_part_of_the_median(
    site: Site, services: Services
) -> None:
    await services.lists.create("other", "Other", "other@contoso.example")
    earlier = [await sent(services, opened, days=9 - opened) for opened in (1, 2, 3, 8)]
    message = await sent(services, 5)
    shared = earlier[-1].ref
    found = await services.results.compared(message, sees=lambda each: each.ref != shared)
    assert found.comparison is not None
    assert (found.comparison.messages, found.comparison.rates.opened) == (3, 20.0)
    everything = (await services.results.compared(message)).comparison
    assert everything is not None
    assert (everything.messages, everything.rates.opened) == (4, 25.0)


async def test_a_message_that_is_being_sent_has_its_numbers_until_now(
    site: Site, services: Services
) -> None:
    message = await services.messages.create(NAME, "News", NewBodies(HTML), clock.now())
    message = await fan_out_whole(services.store, message.ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 4)
    described = describe_results(await services.results.compared(message))
    assert (described.accepted, described.delivered) == (4, 4)
    page = (await (await site.user()).get(f"/messages/{message.ref}")).text
    assert "4 of 4 accepted" in page
    assert page.index('id="progress-title"') < page.index('id="results-title"')
