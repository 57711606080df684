"""Personal tracking: own links for those who agreed, the same ones for all others, and pages, file,
API and command that show who opened and clicked."""

from __future__ import annotations

import csv
import re
import secrets
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from postroom.cli.messages.message_results_command import lines_of
from postroom.cli.support import output
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.hits import HIT_QUEUE, HitBatch
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.mail.mail_reader import read_mail
from postroom.mail.mailing import Mailing, Recipient, SplicedMailing
from postroom.mail.tracking.tracking_tokens import TrackedLink
from postroom.sender.mailings import Mailings
from postroom.sender.policy import RetryPlan
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from postroom.services.resources.results import describe_person, describe_results
from tests.integration.usecases.audience.results.test_personal_hits import agree, work, worker_of
from tests.integration.usecases.making import now
from tests.integration.usecases.messages.sending.test_sender_and_its_store import sender
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.services.mail.recording_smtp import Rule, running_recording_smtp
from tests.services.waiting import until
from tests.web.site import Site

NAME = ListName("contoso1")
HTML = """<p>Hello {{ email }}</p>
<a href="https://www.example.com/first?a=1&amp;b=2">First</a>
<a href="https://www.example.com/second">Second, called „Zwei“</a>
<a href="{{ unsubscribe_url }}">Leave</a>
"""
LINK = re.compile(r'(?:href|src)="([^"]+/[ro]/([^"/.]+)[^"]*)"')
FIREFOX = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"}


@pytest.fixture
async def people(site: Site) -> list[Subscriber]:
    """Four subscribers, of whom the first two agree."""
    services = site.services
    await services.lists.create(NAME, "Contoso News", "news@contoso.example")
    add = services.subscriptions.add
    made = [await add(NAME, f"user{number}@example.com", verified=True) for number in range(4)]
    await agree(services, made[:2])
    return made


async def queued(site: Site, track: Track = Track.PERSONAL) -> Message:
    create = site.services.messages.create
    message = await create(NAME, "News", NewBodies(HTML), now(), options=SendingOptions(track))
    return await fan_out_whole(site.services.store, message.ref)


async def mailing_of(site: Site, message: Message) -> Mailing:
    links = site.services.link_tables
    return await Mailings(site.services, site.url, links=links).mailing(message)


def links_of(mail: bytes) -> list[str]:
    """The tracked links of an email, which have one token in common."""
    found = LINK.findall(read_mail(mail).html or "")
    assert len({token for _, token in found}) == 1
    return [link for link, _ in found]


async def test_only_those_who_agreed_have_personal_links(
    site: Site, people: list[Subscriber]
) -> None:
    message = await queued(site)
    mailing = await mailing_of(site, message)
    mails = [
        mailing.mail(Recipient(each.address, each.guid, agreed=place < 2))
        for place, each in enumerate(people)
    ]
    own, other, third, fourth = map(links_of, mails)
    assert len(own) == 2 + 2  # with the trap and the pixel
    assert third == fourth
    assert len({own[0], other[0], third[0]}) == 3
    aggregate = await queued(site, Track.AGGREGATE)
    shared = await mailing_of(site, aggregate)
    usual = links_of(shared.mail(Recipient(people[0].address, people[0].guid, agreed=True)))
    assert usual == links_of(shared.mail(Recipient(people[3].address, people[3].guid)))
    tokens = site.services.link_tables.tokens
    assert [tokens.read(each[0].split("/")[-2]) for each in (own, third)] == [
        TrackedLink(message.ref, people[0].guid),
        TrackedLink(message.ref),
    ]
    assert people[0].guid not in "".join(own)
    assert all(len(line) <= 78 for line in mails[0].partition(b"\r\n\r\n")[2].splitlines())


@pytest.mark.parametrize("track", [Track.OFF, Track.PERSONAL])
async def test_links_get_the_utm_parameters_of_the_list_whether_they_are_tracked_or_not(
    site: Site, people: list[Subscriber], track: Track
) -> None:
    await site.services.lists.edit(NAME, utm_source="news")
    message = await queued(site, track)
    await site.services.lists.edit(NAME, utm_source="changed later")
    mailing = await mailing_of(site, message)
    mail = mailing.mail(Recipient(people[0].address, people[0].guid, agreed=True))
    campaign = f"utm_campaign={now():%Y-%m-%d}-news"
    first = f"https://www.example.com/first?a=1&b=2&utm_source=news&utm_medium=email&{campaign}"
    html = read_mail(mail).html or ""
    if track is Track.OFF:
        assert first.replace("&", "&amp;") in html
    else:
        answer = await site.visitor().http.get(links_of(mail)[0])
        assert answer.headers["Location"] == first
    assert "utm_" not in "".join(re.findall(r"[^ ]*/unsubscribe[^ ]*", html))


async def test_an_email_provider_gets_the_same_tokens(site: Site, people: list[Subscriber]) -> None:
    message = await queued(site)
    mailing = await mailing_of(site, message)
    assert isinstance(mailing, SplicedMailing)
    for agreed in (True, False):
        recipient = Recipient(people[0].address, people[0].guid, agreed=agreed)
        html = mailing.parts().html
        for name, value in mailing.values(recipient).items():
            html = html.replace(name, value)
        sent = [link for link, _ in LINK.findall(html)]
        assert sent == links_of(mailing.mail(recipient))


async def test_a_sender_looks_consent_up_and_a_retry_has_the_same_links(
    site: Site, people: list[Subscriber], tmp_path: Path
) -> None:
    services = site.services
    message = await queued(site)
    await agree(services, people[1:2], yes=False)  # after the recipients were planned
    with running_recording_smtp() as server:
        server.script(Rule("end", "user0@", reply="451 4.3.0 later", times=1))
        soon = RetryPlan(timedelta(milliseconds=50))
        async with sender(services.store, server, tmp_path, soon, services=services):

            async def is_sent() -> bool:
                return (await services.outcomes.counts(message)).accepted == 4

            await until(is_sent, "all emails were accepted")
        received = [each for each in server.received() if "user0@" in each.recipients[0]]
        mails = {each.recipients[0]: each.content for each in server.accepted()}
    first, *others = [links_of(mails[each.address]) for each in people]
    assert others[0] == others[1] == others[2] != first
    assert [links_of(each.content) for each in received] == [first, first]
    results = await services.results.of_message(message)
    assert results.people is not None
    assert results.people.agreed == 1


async def test_a_personal_token_cannot_be_guessed_or_used_for_another_message(
    site: Site, people: list[Subscriber]
) -> None:
    services, http = site.services, site.visitor().http
    message, other = await queued(site), await queued(site)
    for each in (message, other):
        await mailing_of(site, each)
    tokens = services.link_tables.tokens
    token = tokens.of_message(message.ref).token(people[0].guid, agreed=True)
    alphabet = "abcdefghijklmnopqrstuvwxyz234567"
    for _ in range(100_000):
        place = secrets.randbelow(len(token))
        fuzzed = token[:place] + secrets.choice(alphabet) + token[place + 1 :]
        assert fuzzed == token or tokens.read(fuzzed) is None
    elsewhere = tokens.of_everybody(other.ref)[:13] + token[13:]
    half = token[:30] + tokens.of_everybody(message.ref)[30:]
    for path in (f"/r/{elsewhere}/1", f"/o/{elsewhere}.gif", f"/r/{half}/1", f"/r/{token}/3"):
        answer = await http.get(path)
        assert answer.status_code == 404, path
        assert "Location" not in answer.headers
    assert (await http.get(f"/r/{token}/2")).headers["Location"] == "https://www.example.com/second"


async def test_page_file_api_and_command_show_who_opened_and_clicked(
    site: Site, people: list[Subscriber]
) -> None:
    services = site.services
    message = await queued(site)
    mailing = await mailing_of(site, message)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * len(people))
    http = site.visitor().http
    for place, each in enumerate(people[:3]):
        links = links_of(mailing.mail(Recipient(each.address, each.guid, agreed=place < 2)))
        await http.get(links[-1], headers=FIREFOX)
        if place != 1:
            await http.get(links[1], headers=FIREFOX)
    await site.context.hits.flush()
    [item] = await services.store.queue(HIT_QUEUE).peek(5)
    guids = {each.guid for each in msgspec.json.decode(item.body, type=HitBatch).hits}
    assert guids == {people[0].guid, people[1].guid, None}
    worker = worker_of(services)
    worker._judge_after = 0.0
    await work(worker)

    described = describe_results(await services.results.compared(message))
    expected = output.builtins(described)
    assert expected["people"] == {"agreed": 0, "opened": 2, "clicked": 1}
    assert expected["opened"]["people"] == 3
    assert expected["links"][0] == {
        "url": "https://www.example.com/second",
        "clicks": 2,
        "people": 1,
    }
    assert lines_of(described)["people"] == "2 opened and 1 clicked, of 0 who agreed"
    key = (await services.keys.create("of the test")).secret
    api, headers = f"/api/v1/messages/{message.ref}", {"Authorization": f"Bearer {key}"}
    assert (await http.get(f"{api}/results", headers=headers)).json() == expected
    first = (await http.get(f"{api}/people?limit=1", headers=headers)).json()
    second = (
        await http.get(f"{api}/people", params={"after": first["next"]}, headers=headers)
    ).json()
    shown = sorted([*first["items"], *second["items"]], key=lambda each: each["email"])
    found = (await services.personal_hits.people(message)).people
    listed = [output.builtins(describe_person(each)) for each in found]
    assert shown == sorted(listed, key=lambda each: each["email"])
    assert [each["email"] for each in shown] == [each.address for each in people[:2]]
    assert shown[0]["links"] == ["https://www.example.com/second"]
    assert shown[1]["clicked_at"] is None
    assert people[0].guid not in f"{first}{second}"
    wrong = await http.get(f"{api}/people", params={"after": "x"}, headers=headers)
    assert wrong.status_code == 422

    user = await site.user()
    file = await user.get(f"/messages/{message.ref}/results.csv")
    rows = list(csv.reader(file.text.splitlines()))[1:]
    for row in (["people", "opened", "2"], ["people", "clicked", "1"]):
        assert row in rows
    page = " ".join((await user.get(f"/messages/{message.ref}")).text.split())
    assert "2 of 0 opened the message" in page
    assert "clicked, of 0" in page
    listing = (await user.get(f"/messages/{message.ref}/people")).text
    assert "user0@example.com" in listing
    assert "user2@example.com" not in listing
    history = (await user.get("/trace?email=user0@example.com")).text
    assert "clicked a link" in history
    await agree(services, people[:1], yes=False)
    assert "user0@" not in (await user.get(f"/messages/{message.ref}/people")).text
    assert "clicked a link" not in (await user.get("/trace?email=user0@example.com")).text
    preferences = f"/preferences?id={people[0].guid}&listName={NAME}"
    own = (await http.post(preferences, data={"action": "download"})).json()
    assert own["messages"][0]["links"] == ["https://www.example.com/second"]
    assert own["messages"][0]["opened_at"] is not None
