"""Tracked links and pixels: nothing with `off`, no individuals with `aggregate`, and people apart
from proxies and programs."""

from __future__ import annotations

import asyncio
import csv
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import httpx2
import msgspec
import pytest

from postroom import clock
from postroom.cli.messages.message_results_command import lines_of
from postroom.cli.support import output
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.hits import HIT_QUEUE, OPENED, Hit, HitBatch, HitCause, cause_of
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef, new_ref
from postroom.domain.messages.tracking import Track
from postroom.domain.queues.queue_names import poison_queue
from postroom.inbound.hit_worker import JUDGE_AFTER, HitWorker
from postroom.mail.mail_reader import read_mail
from postroom.mail.mailing import Recipient
from postroom.mail.tracking.tracking_tokens import TrackingTokens
from postroom.sender.mailings import Mailings
from postroom.services.audience.results.engagement import Engagement, HourFigure
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from postroom.services.resources.results import describe_results
from postroom.storage import KeyRange, Store, StoreOutage
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import now
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.services.waiting import until
from tests.web.site import Site

NAME = ListName("contoso1")
HTML = """<p>Hello {{ email }}</p>
<a href="https://www.example.com/first?a=1&amp;b=2">First</a>
<a href='https://www.example.com/second'>Second</a> <a href=https://shop.example.com/>Third</a>
<a href="https://www.example.com/second">Second again</a>
<a href="mailto:ann@example.com">Mail</a> <a href="tel:+49123">Call</a> <a href="#top">Top</a>
<a href="https://{{ email }}.example.com/">Merged</a>
<a href="{{ unsubscribe_url }}">Leave</a> <a href="{{ web_url }}">View</a>
"""
TARGETS = (
    "https://www.example.com/first?a=1&b=2",
    "https://www.example.com/second",
    "https://shop.example.com/",
)
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"
GMAIL = "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)"


@pytest.fixture
async def people(site: Site) -> list[Subscriber]:
    await site.services.lists.create(NAME, "Contoso News", "news@contoso.example")
    add = site.services.subscriptions.add
    return [await add(NAME, f"user{number}@example.com", verified=True) for number in range(2)]


async def queued(services: Services, track: Track | None = None) -> Message:
    bodies = NewBodies(HTML)
    message = await services.messages.create(
        NAME, "News", bodies, now(), options=SendingOptions(track=track)
    )
    return await fan_out_whole(services.store, message.ref)


async def mails(site: Site, message: Message, people: list[Subscriber]) -> list[bytes]:
    services = site.services
    mailings = Mailings(services, site.url, links=services.link_tables)
    mailing = await mailings.mailing(message)
    return [mailing.mail(Recipient(each.address, each.guid)) for each in people]


def html_of(mail: bytes) -> str:
    return read_mail(mail).html or ""


async def batches(store: Store) -> list[HitBatch]:
    items = await store.queue(HIT_QUEUE).peek(32)
    return [msgspec.json.decode(each.body, type=HitBatch) for each in items]


def _worker(services: Services, judge_after: float = JUDGE_AFTER) -> HitWorker:
    return HitWorker(
        services.store,
        services.messages,
        services.engagement,
        services.personal_hits,
        judge_after=judge_after,
    )


async def count_all(services: Services) -> None:
    """Let a worker count everything that is queued, without waiting for a minute."""
    worker = _worker(services, judge_after=0.0)
    stopping = asyncio.Event()
    running = asyncio.create_task(worker.run(stopping))

    async def is_empty() -> bool:
        return (await services.store.queue(HIT_QUEUE).info()).length == 0

    await until(is_empty, "hits are counted")
    stopping.set()
    await running


async def test_with_tracking_off_nothing_is_added_and_nothing_is_stored(
    site: Site, people: list[Subscriber]
) -> None:
    services = site.services
    message = await queued(services)
    assert message.track is Track.OFF
    plain = Mailings(services, site.url)  # does not know how to track
    expected = (await plain.mailing(message)).mail(Recipient(people[0].address, people[0].guid))
    assert (await mails(site, message, people))[0] == expected
    assert await services.link_tables.read(message) is None
    token = services.link_tables.tokens.of_everybody(message.ref)
    visitor = site.visitor()
    for path in (f"/r/{token}/1", f"/o/{token}.gif"):
        assert (await visitor.http.get(path)).status_code == 404
    await site.context.hits.flush()
    assert await batches(services.store) == []
    assert (await services.results.of_message(message)).opened is None


async def test_in_aggregate_all_recipients_have_the_same_links_which_lead_to_their_targets(
    site: Site, people: list[Subscriber]
) -> None:
    services, http = site.services, site.visitor().http
    await services.lists.edit(NAME, track="aggregate")
    message = await queued(services)
    assert message.track is Track.AGGREGATE
    documents = [html_of(each) for each in await mails(site, message, people)]
    links = [
        re.findall(r'(?:href|src)=["\']?([^"\' >]+/[ro]/[^"\' >]+)', each) for each in documents
    ]
    assert links[0] == links[1]
    assert len(links[0]) == 4 + 2  # with the trap and the pixel
    for kept in ("mailto:ann@example.com", "tel:+49123", "#top", "/unsubscribe?id=", "/view?ref="):
        assert kept in documents[0]
    assert "https://user0@example.com.example.com/" in documents[0]
    assert not any(each in "".join(links[0]) for each in ("example.com", people[0].guid))
    for link, target in zip(links[0], (*TARGETS, TARGETS[1]), strict=False):
        for method in ("GET", "HEAD"):
            answer = await http.request(method, link)
            assert (answer.status_code, answer.headers["Location"]) == (302, target)
            assert answer.headers["Referrer-Policy"] == "no-referrer"
    pixel = await http.get(links[0][-1])
    assert len(pixel.content) == 43
    assert (pixel.headers["Content-Type"], pixel.headers["Cache-Control"]) == (
        "image/gif",
        "no-store",
    )


async def test_no_other_token_or_number_leads_anywhere(
    site: Site, people: list[Subscriber]
) -> None:
    services, http = site.services, site.visitor().http
    message = await queued(services, Track.AGGREGATE)
    await mails(site, message, people)
    other = await queued(services, Track.AGGREGATE)
    tokens = services.link_tables.tokens
    token = tokens.of_everybody(message.ref)
    alphabet = "abcdefghijklmnopqrstuvwxyz234567"
    for _ in range(100_000):
        place = secrets.randbelow(len(token))
        letter = secrets.choice(alphabet)
        fuzzed = token[:place] + letter + token[place + 1 :]
        assert fuzzed == token or tokens.read(fuzzed) is None
    mixed = tokens.of_everybody(other.ref)[:13] + token[13:]
    foreign = TrackingTokens([b"another key"]).of_everybody(message.ref)
    unknown = tokens.of_everybody(new_ref())
    signer = services.identification.signer.of_message(message.ref)
    envelope = signer.token(people[0].guid)
    wrong = [f"/r/{each}/1" for each in (mixed, foreign, unknown, envelope, "x", f"{token}x")]
    wrong += [f"/r/{token}/{each}" for each in ("4", "-1", "99999", "999999", "x", "1x", "٣")]
    wrong += [f"/o/{each}.gif" for each in (mixed, foreign, unknown, "x")]
    wrong.append(f"/r/{tokens.of_everybody(other.ref)}/1")  # no email of it was composed
    for path in wrong:
        answer = await http.get(path)
        assert answer.status_code == 404, path
        assert "Location" not in answer.headers
        assert answer.headers["Referrer-Policy"] == "no-referrer"
    await site.context.hits.flush()
    assert await batches(services.store) == []


async def test_a_link_that_does_not_work_shows_a_page_in_the_visitors_language(
    site: Site, people: list[Subscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    services, http = site.services, site.visitor().http
    german = {"Accept-Language": "de"}
    broken = await http.get("/r/x/1", headers=german)
    assert (broken.status_code, broken.headers["Content-Language"]) == (404, "de")
    assert '<html lang="de"' in broken.text
    assert "Dieser Link funktioniert nicht" in broken.text
    token = services.link_tables.tokens.of_everybody((await queued(services, Track.AGGREGATE)).ref)

    async def fail(ref: MessageRef) -> Message:
        raise StoreOutage("the store is down")

    monkeypatch.setattr(services.messages, "get", fail)
    outage = await http.get(f"/r/{token}/1", headers=german)
    assert (outage.status_code, outage.headers["Retry-After"]) == (503, "60")
    assert '<html lang="de"' in outage.text
    pixel = await http.get(f"/o/{token}.gif", headers=german)
    assert (pixel.status_code, pixel.headers["Retry-After"]) == (503, "60")
    assert "<html" not in pixel.text


async def test_only_the_person_counts_as_a_person(site: Site, people: list[Subscriber]) -> None:
    """Gmail's and Apple's proxies, Outlook's SafeLinks, which also follows the link that nobody
    sees, a gateway that opens every link, a slow scanner that falls into the trap, a crawler, HEAD
    and prefetch requests, and somebody who reads and clicks."""
    services, http = site.services, site.visitor().http
    message = await queued(services, Track.AGGREGATE)
    await mails(site, message, people)
    token = services.link_tables.tokens.of_everybody(message.ref)
    pixel, links = f"/o/{token}.gif", [f"/r/{token}/{number}" for number in range(4)]

    async def get(path: str, agent: str, **headers: str) -> None:
        await http.get(path, headers={"User-Agent": agent, **headers})

    await get(pixel, GMAIL)
    await get(pixel, "Mozilla/5.0")  # Apple Mail Privacy Protection
    gateway = f"{FIREFOX} gateway"
    for link in (pixel, *links[1:]):
        await get(link, gateway)
    safe_links = f"{FIREFOX} Edg/140.0"
    await http.head(links[1], headers={"User-Agent": safe_links})
    for link in links[:3]:
        await get(link, safe_links)
    slow = f"{FIREFOX} slow"
    await get(links[1], slow)
    await get(links[0], slow)
    await get(links[2], "curl/8.5.0")
    await http.head(links[1], headers={"User-Agent": f"{FIREFOX} head"})
    await get(links[1], f"{FIREFOX} prefetch", **{"Sec-Purpose": "prefetch;prerender"})
    for _ in range(2):  # repeated within a visit
        await get(pixel, FIREFOX)
        await get(links[2], FIREFOX)
    await site.context.hits.flush()
    [batch] = await batches(services.store)
    stored = msgspec.json.encode(batch).decode()
    assert "Firefox" not in stored
    assert "127.0.0.1" not in stored
    await count_all(services)
    results = await services.results.of_message(message)
    found = results.engagement
    assert found is not None
    assert (found.opened, found.opened_by_proxies, found.opened_by_programs) == (1, 2, 1)
    assert (found.clicked, found.clicked_by_programs) == (1, 3 + 2 + 1 + 1)
    assert (results.links[0].url, results.links[0].clicks) == (TARGETS[1], 1)
    assert sum(each.clicks for each in results.links) == 1
    assert sum(each.opened for each in found.hours.values()) == 1
    assert results.click_to_open == 100.0


async def test_hits_count_once_wherever_their_worker_dies_and_however_often_they_arrive(
    site: Site, people: list[Subscriber]
) -> None:
    services, store = site.services, site.services.store
    message, other = [await queued(services, Track.AGGREGATE) for _ in range(2)]
    queue = store.queue(HIT_QUEUE)
    long_ago = time.time() - 100

    async def attempt(fate: Fate, writes: int) -> None:
        hits = tuple(
            Hit(ref, number, long_ago, f"{writes} {who}", HitCause.PERSON)
            for ref in (message.ref, other.ref)
            for who in range(3)
            for number in (OPENED, 1)
        )
        body = msgspec.json.encode(HitBatch(secrets.token_hex(8), hits)).decode()
        await queue.put_many([body, body])  # the web server got no reply, and put it again
        dying = Services(Fated(store, fate))
        worker = _worker(dying)
        with_hits: Callable[[], Awaitable[object]] = worker._take
        await dies(_both(with_hits, worker._count_ripe))
        await fate.end_leases(store)
        await count_all(services)
        for ref in (message.ref, other.ref):
            found = await services.engagement.of_message(ref)
            expected = 3 * (writes + 1)
            assert (found.opened, found.clicked, found.links) == (
                expected,
                expected,
                {1: expected},
            )

    await cut_after_each_write(attempt, at_most=20)
    await services.results.forget(message)
    assert await services.engagement.of_message(message.ref) == Engagement()


async def test_batches_are_forgotten_even_if_the_process_that_counted_them_has_ended(
    site: Site, people: list[Subscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    services, queue = site.services, site.services.store.queue(HIT_QUEUE)
    message = await queued(services, Track.AGGREGATE)
    rows = services.store.table("engagement")

    async def batches_after(minutes: int, worker: HitWorker, hits: int) -> list[str]:
        later = now() + timedelta(minutes=minutes)
        monkeypatch.setattr(clock, "now", lambda: later)
        for number in range(hits):
            hit = Hit(message.ref, 1, time.time() - 100, f"{minutes} {number}", HitCause.PERSON)
            batch = HitBatch(f"{minutes}.{number}", (hit,))
            await queue.put(msgspec.json.encode(batch).decode())
        await worker._take()
        await worker._count_ripe()
        found = await rows.query(KeyRange.only(message.ref), KeyRange.prefix("batch,"))
        return sorted(each.row for each in found.entities)

    assert await batches_after(0, _worker(services), 3) == ["batch,0.0", "batch,0.1", "batch,0.2"]
    second = _worker(services)
    assert len(await batches_after(5, second, 1)) == 4, "they may arrive again"
    third = _worker(services)
    assert await batches_after(12, third, 1) == ["batch,12.0", "batch,5.0"]
    assert await batches_after(23, third, 0) == []
    assert (await services.engagement.of_message(message.ref)).clicked == 5


async def test_a_process_that_is_behind_holds_little_so_that_its_end_costs_few_attempts(
    site: Site, people: list[Subscriber]
) -> None:
    services, queue = site.services, site.services.store.queue(HIT_QUEUE)
    message = await queued(services, Track.AGGREGATE)
    items, an_hour_ago = 300, time.time() - 3600
    await queue.put_many(
        [
            msgspec.json.encode(
                HitBatch(
                    str(n), (Hit(message.ref, 1, an_hour_ago + 10 * n, str(n), HitCause.PERSON),)
                )
            ).decode()
            for n in range(items)
        ]
    )
    fate = Fate()
    dying = _worker(Services(Fated(services.store, fate)))
    assert await dying._take(), "there are more"
    assert 0 < len(dying._held) < items / 4
    await fate.end_leases(services.store)
    await count_all(services)
    assert (await services.engagement.of_message(message.ref)).clicked == items


async def test_hits_that_end_their_process_every_time_become_poison(
    site: Site, people: list[Subscriber]
) -> None:
    services, queue = site.services, site.services.store.queue(HIT_QUEUE)
    message = await queued(services, Track.AGGREGATE)
    bodies = [
        msgspec.json.encode(
            HitBatch(each, (Hit(message.ref, 1, time.time() - 100, each, HitCause.PERSON),))
        ).decode()
        for each in ("deadly", "harmless")
    ]
    await queue.put(bodies[0])
    for _ in range(6):
        [item] = await queue.receive(1, lease=300)
        await queue.release(item)
    await queue.put(bodies[1])
    await count_all(services)
    [poison] = await services.store.queue(poison_queue(HIT_QUEUE)).peek(5)
    assert poison.body == bodies[0]
    assert "6 attempts ended without a result" in poison.properties["error"]
    assert (await services.engagement.of_message(message.ref)).clicked == 1


async def _both(one: Callable[[], Awaitable[object]], other: Callable[[], Awaitable[None]]) -> None:
    await one()
    await other()


async def test_page_file_api_and_command_show_the_same_numbers(
    site: Site, people: list[Subscriber]
) -> None:
    services = site.services
    message = await queued(services, Track.AGGREGATE)
    await mails(site, message, people)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * len(people))
    hours = {"2026-11-16T22": HourFigure(40, 10), "2026-11-17T01": HourFigure(1, 0)}
    sums = Engagement(41, 22, 33, 10, 44, {2: 7, 3: 5}, hours)
    assert await services.engagement.add(message.ref, "one", sums)
    assert not await services.engagement.add(message.ref, "one", sums)
    described = describe_results(await services.results.compared(message))
    expected = output.builtins(described)
    assert expected["opened"] == {"people": 41, "proxies": 22, "automated": 33}
    assert expected["clicked"] == {"people": 10, "automated": 44}
    assert expected["click_to_open"] == 24.4
    assert [each["clicks"] for each in expected["links"]] == [7, 5, 0]
    key = (await services.keys.create("of the test")).secret
    answer = await site.visitor().http.get(
        f"/api/v1/messages/{message.ref}/results", headers={"Authorization": f"Bearer {key}"}
    )
    assert answer.json() == expected
    user = await site.user()
    file = await user.get(f"/messages/{message.ref}/results.csv")
    rows = list(csv.reader(file.text.splitlines()))[1:]
    assert ["opened", "people", "41"] in rows
    assert ["clicked", "automated", "44"] in rows
    assert ["click_to_open", "", "24.4"] in rows
    assert ["clicks", TARGETS[1], "7"] in rows
    assert ["opened by hour", "2026-11-17T01:00Z", "1"] in rows
    page = " ".join((await user.get(f"/messages/{message.ref}")).text.split())
    for shown in ("41", "10", "24.4%"):
        assert f'<dd class="figure">{shown}</dd>' in page
    assert "22 by the proxies of Apple, Gmail and Yahoo" in page
    assert page.count('class="bar-clicked"') == 4 + 1, "hours without hits, and the legend"
    printed = lines_of(described)
    assert printed["opened"] == "41 (2050.00%), and 22 by proxies, 33 automated"
    assert printed["clicked"] == "10 (500.00%), and 44 automated"


async def test_track_is_chosen_for_lists_and_messages(site: Site, people: list[Subscriber]) -> None:
    services = site.services
    key = (await services.keys.create("of the test")).secret
    headers = {"Authorization": f"Bearer {key}"}
    http = site.visitor().http

    async def call(method: str, path: str, body: dict[str, object]) -> httpx2.Response:
        return await http.request(method, f"/api/v1{path}", json=body, headers=headers)

    new = {"draft": True, "list": NAME, "subject": "News", "html": "<p>Hi"}
    wrong: dict[str, object] = {"track": "everything"}
    assert (await call("POST", "/messages", {**new, **wrong})).status_code == 422
    answer = await call("PATCH", f"/lists/{NAME}", wrong)
    assert answer.status_code == 422
    assert "must be off, aggregate or personal, not 'everything'" in answer.text
    draft = (await call("POST", "/messages", new)).json()
    assert draft["track"] is None
    there = f"/messages/{draft['ref']}"
    for track in Track:
        assert (await call("PATCH", there, {"track": track})).json()["track"] == track
    assert (await call("PATCH", there, {"track": None})).json()["track"] is None
    assert (await call("PATCH", f"/lists/{NAME}", {"track": "aggregate"})).status_code == 200
    planned = await queued(services, Track.OFF)
    assert planned.track is Track.OFF, "the message's own choice counts"
    personal = await queued(services, Track.PERSONAL)
    assert personal.track is Track.PERSONAL
    editor = await site.user()
    page = await editor.get(f"{there}/edit")
    for each in Track:
        assert f'<option value="{each}"' in page.text
    assert '<option value="aggregate" selected>' in (await editor.get(f"/lists/{NAME}/edit")).text


def test_people_proxies_and_programs_are_distinguished_by_their_agents() -> None:
    assert cause_of(FIREFOX) is HitCause.PERSON
    assert cause_of(GMAIL) is cause_of("Mozilla/5.0") is HitCause.PROXY
    assert cause_of("YahooMailProxy; https://help.yahoo.com/x") is HitCause.PROXY
    for program in (
        "",
        "curl/8.5.0",
        "Googlebot/2.1",
        "python-requests/2.32",
        "Barracuda Sentinel",
    ):
        assert cause_of(program) is HitCause.PROGRAM, program
