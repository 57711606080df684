"""Messages under way and done, over HTTP: indexes, the sum, live events, outcomes, decisions."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.scheduler.completion import Completion
from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.holds import ACCOUNT, Fault, WaitingReasons
from postroom.services.messages.sending.progress import Progress
from postroom.transport.contract import FaultScope
from postroom.web.admin.messages.message_details import rate_of
from tests.integration.usecases.pages import fan_out_whole, settle, settle_waiting
from tests.services.waiting import until
from tests.web.site import Site, Visitor

ACCEPTED, REFUSED = EmailOutcome.ACCEPTED, EmailOutcome.REFUSED
SUPPRESSED, IN_DOUBT = EmailOutcome.SUPPRESSED, EmailOutcome.IN_DOUBT
BODIES = NewBodies("<p>Hi</p>", "Hi")


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def schedule(site: Site, subject: str = "Hello", *, hours: float = 0.0) -> Message:
    at = datetime.now(UTC) + timedelta(hours=hours)
    return await site.services.messages.create("news", subject, BODIES, at)


async def under_way(site: Site, *outcomes: EmailOutcome, waiting: int = 0) -> Message:
    """A message whose emails have become this, and so many of which wait."""
    for number in range(len(outcomes) + waiting):
        await site.services.subscriptions.add("news", f"user{number:03}@example.com", verified=True)
    message = await fan_out_whole(site.services.store, (await schedule(site)).ref)
    await settle(site.services, message, 0, outcomes)
    return message


async def finish(site: Site, message: Message) -> Message:
    services = site.services
    assert await Completion(services).check(message)
    return await services.messages.get(message.ref)


def numbers(page: str) -> dict[str, int]:
    """The sum as the page shows it."""
    found = re.findall(r'data-count="(\w+)">([\d,]+)<', page)
    return {name: int(text.replace(",", "")) for name, text in found}


def subjects(page: str) -> list[str]:
    return re.findall(r'<a href="/messages/\d{18}">([^<]+)</a>', page)


async def first_events(editor: Visitor, path: str, count: int) -> list[tuple[str, dict[str, Any]]]:
    """The first events of a stream, with their kinds; fewer if it ends before."""
    events: list[tuple[str, dict[str, Any]]] = []
    async with editor.http.stream("GET", path) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        kind = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                events.append((kind, json.loads(line.removeprefix("data: "))))
            if len(events) == count:
                break
    return events


async def test_open_messages_are_shown_by_time_and_filtered(site: Site, editor: Visitor) -> None:
    assert "Nothing scheduled" in (await editor.get("/messages")).text
    await site.services.lists.create("other", "Other", "other@contoso.example")
    for number in (3, 1, 2):
        await schedule(site, f"Part {number}", hours=number)
    last = await site.services.messages.create(
        "other", "Part 4", BODIES, datetime.now(UTC) + timedelta(hours=4)
    )
    await site.services.message_states.pause(last.ref, "wait <here>")
    index = await editor.get("/messages")
    assert subjects(index.text) == ["Part 1", "Part 2", "Part 3", "Part 4"]
    assert "wait &lt;here&gt;" in index.text
    assert subjects((await editor.get("/messages?list=other")).text) == ["Part 4"]
    assert subjects((await editor.get("/lists/other")).text) == ["Part 4"]
    assert "No matching messages" in (await editor.get("/messages?list=x")).text


async def test_a_message_that_is_being_sent_shows_its_progress_and_what_it_waits_for(
    site: Site, editor: Visitor
) -> None:
    message = await under_way(site, ACCEPTED, REFUSED, waiting=3)
    page = await counted_page(editor, "/messages/sending", "2 of 5")
    assert '<progress value="2" max="5" aria-label="Progress of Hello">' in page
    assert 'hx-get="/messages/sending"' in page
    part = (await editor.get("/messages/sending", headers={"HX-Request": "true"})).text
    assert subjects(part) == ["Hello"]
    assert "<main" not in part

    fault = Fault(FaultScope.ACCOUNT, ACCOUNT, "The mail server is unreachable", "refused")
    await site.services.holds.open(fault)
    for path in ("/messages/sending", "/", f"/messages/{message.ref}", "/lists/news"):
        page = (await editor.get(path)).text
        assert '<span class="badge warn">On hold</span>' in page, path
        assert ">Sending</span>" not in page, path
    await site.services.message_states.pause(message.ref)
    for path in ("/messages/sending", "/"):
        page = await counted_page(editor, path, "2 of 5")
        assert '<span class="badge warn">Paused</span>' in page, path
        assert '<progress class="waiting"' in page, path


async def counted_page(editor: Visitor, path: str, progress: str) -> str:
    """Return a page that shows this progress: it does not wait long for a count."""
    page = ""

    async def is_counted() -> bool:
        nonlocal page
        page = (await editor.get(path)).text
        return progress in page

    await until(is_counted, f"{path} shows {progress}")
    return page


async def test_a_cancelled_message_is_no_longer_scheduled(site: Site, editor: Visitor) -> None:
    await schedule(site, "Tomorrow", hours=24)
    for hours in (-1, 25):
        await site.services.message_states.cancel((await schedule(site, "Never", hours=hours)).ref)
    for order in ("", "?sort=subject"):
        assert subjects((await editor.get(f"/messages{order}")).text) == ["Tomorrow"]
        assert subjects((await editor.get(f"/messages/sending{order}")).text) == []


async def test_many_messages_are_paged(site: Site, editor: Visitor) -> None:
    for number in range(55):
        await schedule(site, f"Part {number:02}", hours=1 + number)
    first = await editor.get("/messages")
    [following] = re.findall(r'href="([^"]+)" rel="next"', first.text)
    second = await editor.get(html.unescape(following))
    assert subjects(first.text) + subjects(second.text) == [f"Part {n:02}" for n in range(55)]


async def test_the_archive_has_the_newest_first_with_their_sums(
    site: Site, editor: Visitor
) -> None:
    assert "Nothing sent yet" in (await editor.get("/messages/sent")).text
    for far in ("9999-12-31T23:59:59-14:00,x", "0001-01-01T00:00:00+14:00,x"):
        assert (await editor.get("/messages/sent", params={"before": far})).status_code == 200
    await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    for number in range(3):
        message = await schedule(site, f"Part {number}", hours=-10 + number)
        message = await fan_out_whole(site.services.store, message.ref)
        await settle(site.services, message, 0, [ACCEPTED])
        await finish(site, message)
    page = await editor.get("/messages/sent")
    assert subjects(page.text) == ["Part 2", "Part 1", "Part 0"]
    assert page.text.count('data-label="Accepted">1<') == 3
    assert subjects((await editor.get("/messages")).text) == []


async def test_the_page_of_a_message_shows_the_sum(site: Site, editor: Visitor) -> None:
    message = await under_way(site, ACCEPTED, ACCEPTED, REFUSED, SUPPRESSED, IN_DOUBT, waiting=2)
    page = await editor.get(f"/messages/{message.ref}")
    shown = numbers(page.text)
    assert shown == {
        "planned": 7, "pending": 2, "accepted": 2, "refused": 1, "suppressed": 1, "in_doubt": 1
    }  # fmt: skip
    segments = re.findall(r'data-segment="(\w+)" x="([\d.]+)" y="0" width="([\d.]+)"', page.text)
    assert [name for name, _, _ in segments] == [
        "accepted", "refused", "suppressed", "in_doubt", "pending"
    ]  # fmt: skip
    assert sum(float(width) for _, _, width in segments) == pytest.approx(1000, abs=0.1)
    assert "style=" not in page.text


async def test_events_show_the_progress_and_end_when_it_is_done(
    site: Site, editor: Visitor
) -> None:
    message = await under_way(site, ACCEPTED, REFUSED, waiting=1)
    where = f"/messages/{message.ref}/events"
    [(kind, state)] = await first_events(editor, where, 1)
    assert kind == "progress"
    assert state["status"] == "Processing"
    assert state["counts"]["planned"] == 3
    assert state["counts"]["pending"] == 1
    await settle(site.services, message, 0, [ACCEPTED])
    await finish(site, message)
    [(kind, state)] = await first_events(editor, where, 9)
    assert kind == "end"
    assert state["counts"]["accepted"] == 2
    assert (await editor.get("/messages/123456789012345678/events")).status_code == 404


async def test_it_is_paused_resumed_and_cancelled_after_a_question(
    site: Site, editor: Visitor
) -> None:
    message = await under_way(site, ACCEPTED, waiting=2)
    where = f"/messages/{message.ref}"
    await editor.said(await editor.post(f"{where}/pause", {"reason": "<why>"}))
    page = await editor.get(where)
    assert "&lt;why&gt;" in page.text
    assert "Paused" in page.text
    assert (await editor.post(f"{where}/pause")).status_code == 409
    resumed = await editor.post(f"{where}/resume")
    assert (await editor.undo(resumed)).startswith("Paused.")
    now = await site.services.messages.get(message.ref)
    assert now.status is MessageStatus.PAUSED
    await editor.said(await editor.post(f"{where}/resume"))
    now = await site.services.messages.get(message.ref)
    assert now.status is MessageStatus.PROCESSING
    question = await editor.get(f"{where}/cancel")
    assert "1 accepted so far; 2 recipients still waiting." in question.text
    await editor.said(await editor.post(f"{where}/cancel"))
    now = await site.services.messages.get(message.ref)
    assert now.status is MessageStatus.CANCELLED
    for action in ("pause", "resume", "cancel"):
        assert (await editor.post(f"{where}/{action}")).status_code == 409


async def test_each_recipient_is_found_with_the_words_of_the_mail_server(
    site: Site, editor: Visitor
) -> None:
    message = await under_way(site, ACCEPTED, REFUSED, *[ACCEPTED] * 58)
    where = f"/messages/{message.ref}/emails"

    def found(page: str) -> list[str]:
        return re.findall(r'href="/trace\?email=user(\d+)%40example.com"', page)

    first = await editor.get(where)
    [following] = re.findall(r'href="([^"]+)" rel="next"', first.text)
    second = await editor.get(html.unescape(following))
    assert found(first.text) + found(second.text) == [f"{n:03}" for n in range(60)]
    assert "250 2.0.0 ok" in first.text
    assert found((await editor.get(f"{where}?outcome=refused")).text) == ["001"]
    assert found((await editor.get(f"{where}?q=user05")).text) == [f"05{n}" for n in range(10)]
    assert found((await editor.get(f"{where}?q=user001&outcome=accepted")).text) == []
    assert "No matching recipients" in (await editor.get(f"{where}?q=zoe")).text
    assert (await editor.get(f"{where}?after=nonsense")).status_code == 422


async def test_decisions_apply_to_the_selected_uncertain_emails(
    site: Site, editor: Visitor
) -> None:
    message = await under_way(site, IN_DOUBT, IN_DOUBT, IN_DOUBT, ACCEPTED)
    where = f"/messages/{message.ref}/emails"
    page = await editor.get(f"{where}?outcome=in_doubt")
    ticked = re.findall(r'name="email" value="([^"]+)"', page.text)
    assert len(ticked) == 3
    assert 'name="decision"' not in (await editor.get(where)).text
    sent = await editor.post(f"{where}/decide", {"decision": "sent", "email": ticked[:2]})
    assert await editor.said(sent) == "2 emails marked as sent."
    again = await editor.post(
        f"{where}/decide", {"decision": "resend", "email": [ticked[2], ticked[0], "<x>"]}
    )
    said = await editor.said(again)
    assert said.startswith("1 email queued to be sent again. Some could not be changed: ")
    counts = await site.services.outcomes.counts(message)
    assert (counts.accepted, counts.pending, counts.in_doubt) == (3, 1, 0)
    assert (await editor.post(f"{where}/decide", {"decision": "?"})).status_code == 422
    nobody = await editor.post(f"{where}/decide", {"decision": "sent"})
    assert "No recipients selected" in await editor.said(nobody)


async def test_only_the_failed_are_tried_again_by_another_message(
    site: Site, editor: Visitor
) -> None:
    message = await finish(site, await under_way(site, ACCEPTED, REFUSED, REFUSED))
    where = f"/messages/{message.ref}"
    assert f"{where}/retry" in (await editor.get(where)).text
    question = await editor.get(f"{where}/retry")
    assert "2 addresses that the mail server refused" in html.unescape(question.text)
    made = await editor.post(f"{where}/retry")
    again = await editor.post(f"{where}/retry")
    assert made.headers["location"] == again.headers["location"]
    page = await editor.get(made.headers["location"])
    assert f'href="{where}">an earlier message</a>' in page.text
    assert (
        f'href="{made.headers["location"]}">another message</a>' in (await editor.get(where)).text
    )
    ref = made.headers["location"].rpartition("/")[2]
    queued = await fan_out_whole(site.services.store, ref)
    assert (await site.services.outcomes.counts(queued)).planned == 2
    assert (await editor.post(f"/messages/{ref}/retry")).status_code == 409


async def test_a_message_that_is_paused_before_it_began_says_when_it_would_be_sent(
    site: Site, editor: Visitor
) -> None:
    at = datetime.now(UTC) + timedelta(days=1, hours=1)
    message = await site.services.messages.create("news", "Hi", NewBodies("<p>Hi</p>"), at)
    said = await editor.said(await editor.post(f"/messages/{message.ref}/pause"))
    assert said == "Paused. The message is not sent until you resume it."
    page = await editor.get(f"/messages/{message.ref}")
    assert re.search(r">in 1 day</time>\). It is not sent until you resume it.", page.text)
    assert "confirmed subscriber" in page.text, "an estimate"
    assert re.search(r'id="progress"[^>]* hidden', page.text), "there is no sum yet"
    question = await editor.get(f"/messages/{message.ref}/cancel")
    assert "Sending has not started: nobody has received it." in question.text
    await editor.said(await editor.post(f"/messages/{message.ref}/cancel"))
    page = await editor.get(f"/messages/{message.ref}")
    assert "Not sent to anyone: it was cancelled before sending started." in page.text


async def test_only_what_is_being_sent_has_a_rate(site: Site, editor: Visitor) -> None:
    await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    running = await site.services.messages.create(
        "news", "Hi", NewBodies("<p>Hi</p>"), datetime.now(UTC)
    )
    running = await fan_out_whole(site.services.store, running.ref)
    moving = Progress(Counts(planned=1), 12.34)
    assert rate_of(running, moving) == 12.3
    paused = await site.services.message_states.pause(running.ref)
    assert rate_of(paused, moving) is None


async def test_a_message_to_nobody_says_why_nothing_happened(site: Site, editor: Visitor) -> None:
    await site.services.lists.create("empty", "Empty", "news@contoso.example")
    message = await site.services.messages.create(
        "empty", "Hi", NewBodies("<p>Hi</p>"), datetime.now(UTC)
    )
    message = await fan_out_whole(site.services.store, message.ref)
    done = Completion(site.services)
    assert await done.check(message)
    page = await editor.get(f"/messages/{message.ref}")
    assert (
        "Not sent to anyone: the list had no confirmed subscribers when the message was due."
        in page.text
    )


async def test_holds_and_deferred_emails_are_shown_and_can_be_tried_at_once(
    site: Site, editor: Visitor
) -> None:
    message = await under_way(site, EmailOutcome.ACCEPTED, waiting=3)
    later = datetime.now(UTC) + timedelta(hours=4)
    await settle_waiting(site.services, message, WaitingReasons(3, later, "450 <busy>"))
    place = f"/messages/{message.ref}"
    page = (await editor.get(place)).text
    assert "3 emails deferred" in page
    assert "450 &lt;busy&gt;" in page
    said = await editor.said(await editor.post(f"{place}/retry-deferred"))
    assert said == "Retrying deferred emails now."

    assert (await editor.post(f"{place}/try-now")).status_code == 409  # no hold
    reply = "connection refused by <b>mail.example</b>"
    await site.services.holds.open(
        Fault(FaultScope.ACCOUNT, ACCOUNT, "The mail server is unreachable", reply)
    )
    for path in (place, f"{place}/waiting", "/"):
        page = (await editor.get(path)).text
        assert "All emails are on hold: the mail server is unreachable" in page
        assert "refused by &lt;b&gt;mail.example" in page
    said = await editor.said(await editor.post(f"{place}/try-now"))
    assert said == "Trying now, with a single email."
    [hold] = await site.services.holds.all()
    assert hold.next_probe <= datetime.now(UTC)

    viewer = await site.user(Role.VIEWER)
    page = (await viewer.get(place)).text
    assert "All emails are on hold" in page
    assert "Try now" not in page
    for action in ("try-now", "retry-deferred"):
        assert (await viewer.post(f"{place}/{action}")).status_code == 403
