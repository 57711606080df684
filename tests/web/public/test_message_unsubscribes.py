"""Unsubscribes count for the message whose link was used: once per person, and never by mistake."""

import re
from datetime import timedelta

import pytest

from postroom import clock
from postroom.cli.messages.watching import read_state
from postroom.cli.support import output
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef, new_ref
from postroom.mail.mailing import Recipient
from postroom.sender.mailings import Mailings
from postroom.services.resources.messages import describe_message
from postroom.storage import Entity, Insert, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import schedule
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.web.site import Site

NAME = ListName("contoso1")
ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.fixture
async def people(site: Site) -> list[Subscriber]:
    services = site.services
    await services.lists.create(NAME, "Contoso News", "news@contoso.example")
    return [
        await services.subscriptions.add(NAME, f"user{number}@example.com", verified=True)
        for number in range(20)
    ]


async def sent(services: Services, people: list[Subscriber]) -> Message:
    """Send a message to everybody on the list."""
    message = await fan_out_whole(services.store, (await schedule(services, NAME)).ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * len(people))
    return message


async def counted(services: Services, message: Message) -> int:
    return (await services.results.of_message(message)).unsubscribed


async def test_every_link_of_an_email_counts_once_for_its_message(
    site: Site, people: list[Subscriber]
) -> None:
    services, visitor = site.services, site.visitor()
    message = await sent(services, people)
    mailing = await Mailings(services, site.url).mailing(message)
    mails = [mailing.mail(Recipient(each.address, each.guid)).decode() for each in people[:3]]
    [in_header] = re.findall(r"List-Unsubscribe: <(.+)>", mails[0])
    assert in_header.endswith(f"?id={people[0].guid}&listName={NAME}&ref={message.ref}")
    with_names = {
        mail.replace(each.guid, "GUID") for mail, each in zip(mails, people, strict=False)
    }
    links = {tuple(re.findall(r"List-Unsubscribe: <(.+)>", each)) for each in with_names}
    assert len(links) == 1, "nothing in it but the GUID belongs to a recipient"

    for _ in range(2):
        answer = await visitor.http.post(in_header, data=ONE_CLICK)
        assert answer.status_code == 200
    assert await counted(services, message) == 1

    # Through the preferences page, in another language, and then with the button.
    second = in_header.replace("/unsubscribe", "/preferences").replace(
        people[0].guid, people[1].guid
    )
    page = await visitor.get(f"{second}&lang=de")
    [leaving] = re.findall(r'href="(/unsubscribe[^"]+)"', page.text)
    question = await visitor.get(leaving.replace("&amp;", "&"))
    [action] = re.findall(r'<form method="post" action="([^"]+)"', question.text)
    left = await visitor.http.post(action.replace("&amp;", "&"), data={"action": "confirm"})
    assert left.status_code == 200
    assert await counted(services, message) == 2

    admin = await site.user()
    shown = await admin.get(f"/messages/{message.ref}")
    [number] = re.findall(r"Unsubscribed</button>.*?<dd class=\"figure\">(\d+)<", shown.text)
    assert number == "2"
    key = (await services.keys.create("of the test")).secret
    headers = {"Authorization": f"Bearer {key}"}
    short = await visitor.http.get(f"/api/v1/messages/{message.ref}", headers=headers)
    assert short.json()["results"] == {
        "bounced": 0, "complained": 0, "unsubscribed": 2, "opened": None, "clicked": None,
    }  # fmt: skip
    more = await visitor.http.get(f"/api/v1/messages/{message.ref}/results", headers=headers)
    assert more.json()["unsubscribed"] == 2
    printed = output.builtins(describe_message(*await read_state(services, message.ref)))
    assert printed["results"] == short.json()["results"]


async def test_a_wrong_or_foreign_reference_counts_nothing_and_prevents_nothing(
    site: Site, people: list[Subscriber]
) -> None:
    services, visitor = site.services, site.visitor()
    early = await sent(services, people)
    await services.lists.create("other", "Other", "news@contoso.example")
    late = await services.subscriptions.add(NAME, "late@example.com", verified=True)
    elsewhere = await services.subscriptions.add("other", people[0].address, verified=True)
    draft = await schedule(services, NAME)
    leaving = [
        (people[1], "x" * 18),
        (people[2], new_ref()),  # no such message
        (people[3], f"{early.ref}0"),
        (people[4], ""),
        (people[5], draft.ref),  # not sent yet
        (late, early.ref),  # subscribed after it was sent
        (elsewhere, early.ref),  # another list
    ]
    for subscriber, ref in leaving:
        link = f"/unsubscribe?id={subscriber.guid}&listName={subscriber.list_name}&ref={ref}"
        answer = await visitor.http.post(link, data=ONE_CLICK)
        assert "You are unsubscribed" in answer.text, ref
    assert await counted(services, early) == 0
    assert await counted(services, draft) == 0
    old = f"/unsubscribe?id={people[6].guid}&listName={NAME}"  # as earlier versions wrote it
    assert "You are unsubscribed" in (await visitor.http.post(old, data=ONE_CLICK)).text


async def test_an_unsubscribe_that_is_interrupted_anywhere_is_neither_lost_nor_duplicated(
    site: Site, people: list[Subscriber]
) -> None:
    services, store = site.services, site.services.store
    message = await sent(services, people)

    async def attempt(fate: Fate, writes: int) -> None:
        one = people[writes]

        async def leave(at: Store) -> Subscriber | None:
            unsubscribes = Services(at).message_unsubscribes
            return await unsubscribes.unsubscribe(NAME, one.guid, message.ref)

        await dies(leave(Fated(store, fate)))
        has_left = await services.subscriptions.by_guid(NAME, one.guid) is None
        assert not has_left or await counted(services, message) == writes + 1, "forgotten"
        await leave(store)
        await leave(store)
        assert await services.subscriptions.by_guid(NAME, one.guid) is None
        assert await counted(services, message) == writes + 1

    await cut_after_each_write(attempt, at_most=len(people))
    await services.results.forget(message)
    await services.results.forget(message)
    assert await counted(services, message) == 0


async def test_many_unsubscribes_of_an_old_message_are_counted_once_for_a_while(
    site: Site,
) -> None:
    services = site.services
    table = services.store.table("messageunsubscribe")
    old, young = MessageRef("600000000000000001"), MessageRef("600000000000000002")

    async def leave(ref: MessageRef, first: int, last: int) -> None:
        for start in range(first, last, 100):
            rows = [f"{number:04}" for number in range(start, start + 100)]
            await table.apply([Insert(Entity(ref, row, {"LeftAt": clock.now()})) for row in rows])

    count = services.message_unsubscribes.count
    a_month_ago = clock.now() - timedelta(days=30)
    await leave(old, 0, 500)
    await leave(young, 0, 500)
    for _ in range(2):
        assert await count(old, a_month_ago) == 500
        assert await count(young, clock.now()) == 500
    await leave(old, 500, 600)
    await leave(young, 500, 600)
    assert await count(old, a_month_ago) == 500, "remembered"
    assert await count(old) == 600
    assert await count(young, clock.now()) == 600, "just sent: many are leaving"
