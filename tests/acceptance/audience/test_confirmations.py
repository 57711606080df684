"""From a sign-up to the email that asks for a confirmation, with real processes."""

import asyncio
from collections.abc import Iterator

import pytest

from postroom.domain.audience.lists.list_emails import ListEmailKind
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.domain.queues.queue_names import poison_queue
from postroom.services.audience.signup.changed_details import changes_digest
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom
from tests.contract.conftest import ON_ONE_ENGINE
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.waiting import until
from tests.unit.mail.strict import bodies, parse, read_headers

ANNA = "anna@example.com"


@pytest.fixture
def server() -> Iterator[RecordingSmtp]:
    with running_recording_smtp() as running:
        yield running


async def until_empty(services: Services, queue: str = CONFIRM_QUEUE) -> None:
    async def is_empty() -> bool:
        return (await services.store.queue(queue).info()).length == 0

    await until(is_empty, f"{queue} is empty")


async def make_list(services: Services) -> None:
    await services.lists.create(LIST, "Contoso's news", "news@contoso.example")


@pytest.mark.parametrize(
    ("engine", "part"), [("postgres", "sender"), ("sqlite", "up")], indirect=["engine"]
)
async def test_a_sign_up_gets_one_confirmation_email_and_none_after_confirming(
    postroom: Postroom, services: Services, server: RecordingSmtp, part: str
) -> None:
    await make_list(services)
    process = postroom.start(part)
    assert await services.subscriptions.subscribe(LIST, ANNA)
    await until(lambda: len(server.accepted()) == 1, "no confirmation")
    await until_empty(services)

    [mail] = server.accepted()
    subscriber = await services.subscriptions.get(LIST, ANNA)
    headers, both = read_headers(mail.content), bodies(parse(mail.content))
    link = f"http://localhost:8420/confirm?id={subscriber.guid}&listName={LIST}"
    assert mail.recipients == (ANNA,)
    assert headers["auto-submitted"] == b"auto-generated"
    assert not [name for name in headers if name.startswith("list-")]
    assert link in both["text/plain"]
    assert link.replace("&", "&amp;") in both["text/html"]

    await services.subscriptions.confirm(LIST, subscriber.guid)
    assert not await services.subscriptions.subscribe(LIST, ANNA)
    await services.subscriptions.subscribe(LIST, "bert@example.com")
    await until(lambda: len(server.accepted()) == 2, "no confirmation for the next one")
    assert server.copies() == {ANNA: 1, "bert@example.com": 1}
    assert await asyncio.to_thread(postroom.stop, process) == 0


@ON_ONE_ENGINE
async def test_a_list_asks_and_welcomes_in_its_own_words(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await make_list(services)
    save = services.list_emails.save
    await save(LIST, ListEmailKind.CONFIRMATION, "de", "Hallo", "[Ja]({{ confirm_url }})")
    welcome = 'Dear {{ first_name | default: "you" }}'
    await save(LIST, ListEmailKind.WELCOME, "en", "Welcome, {{ email }}", welcome)
    postroom.start("sender")
    given = {"first_name": "Anna"}
    await services.subscriptions.subscribe(LIST, ANNA, attributes=given, language="de")
    await until(lambda: len(server.accepted()) == 1, "no confirmation")
    guid = (await services.subscriptions.get(LIST, ANNA)).guid
    contoso = await services.lists.edit(LIST, welcome_email=True)
    await services.welcomes.prepare(contoso, guid)
    await services.subscriptions.confirm(LIST, guid)
    await until(lambda: len(server.accepted()) == 2, "no welcome")
    await until_empty(services)
    await services.welcomes.prepare(contoso, guid)

    asked, welcomed = (parse(mail.content) for mail in server.accepted())
    assert asked["subject"] == "Hallo"
    assert f"/confirm?id={guid}" in bodies(asked)["text/plain"]
    assert welcomed["subject"] == f"Welcome, {ANNA}"
    assert bodies(welcomed)["text/plain"].startswith("Dear Anna")
    assert welcomed["list-unsubscribe-post"] == "List-Unsubscribe=One-Click"
    assert (await services.store.queue(CONFIRM_QUEUE).info()).length == 0


@ON_ONE_ENGINE
async def test_subscribers_who_sign_up_again_are_asked_about_their_latest_details(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await make_list(services)
    await services.subscriptions.add(LIST, ANNA, verified=True)
    for name in ("Anna", "Ann"):
        given = {"first_name": name}
        await services.subscriptions.subscribe(
            LIST, ANNA, attributes=given, place="192.0.2.1", language="de", may_change=True
        )
    postroom.start("sender")
    await until_empty(services)

    [mail] = server.accepted()
    asked, anna = parse(mail.content), await services.subscriptions.get(LIST, ANNA)
    link = f"/confirm/changes?id={anna.guid}&listName={LIST}&changes={changes_digest(anna)}&lang=de"
    assert link in bodies(asked)["text/plain"]
    assert asked["subject"] == "Bitte bestätigen Sie Ihre Änderungen für Contoso's news"
    assert anna.pending_attributes == {"first_name": "Ann"}


@ON_ONE_ENGINE
async def test_people_who_left_or_confirmed_meanwhile_get_no_confirmation_email(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await make_list(services)
    for name in ("anna", "bert", "carl", "dora"):
        await services.subscriptions.subscribe(LIST, f"{name}@example.com")
    anna = await services.subscriptions.get(LIST, "anna@example.com")
    await services.subscriptions.confirm(LIST, anna.guid)
    await services.subscriptions.remove(LIST, "bert@example.com")
    await services.subscriptions.edit(LIST, "carl@example.com", blocked="complained")
    postroom.start("sender")
    await until_empty(services)
    assert server.copies() == {"dora@example.com": 1}


@ON_ONE_ENGINE
async def test_a_deferred_confirmation_is_tried_again_and_is_the_same_email(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await make_list(services)
    postroom.settings["retry_first"] = "1s"
    server.script(
        Rule("RCPT", reply="451 4.2.1 try later", times=1),
        Rule("end", drop=True, times=1),  # in doubt: sent again
    )
    await services.subscriptions.subscribe(LIST, ANNA)
    postroom.start("sender")
    await until_empty(services)
    received = server.received()
    assert [mail.accepted for mail in received] == [False, True]
    assert received[0].message_id == received[1].message_id != ""
    assert received[0].content == received[1].content


@ON_ONE_ENGINE
async def test_a_refused_confirmation_is_not_tried_again_and_the_log_says_why(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await make_list(services)
    server.script(Rule("RCPT", reply="550 5.1.1 no such user"))
    await services.subscriptions.subscribe(LIST, ANNA)
    postroom.start("sender")
    await until_empty(services)
    assert server.received() == []
    await until(lambda: "no such user" in postroom.logs(), "nothing in the log")
    assert ANNA not in postroom.logs()


@ON_ONE_ENGINE
async def test_an_invalid_work_item_becomes_poison_with_the_reason(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await make_list(services)
    queue = services.store.queue(CONFIRM_QUEUE)
    wrong = {"nonsense", "0f8fad5b-d9cb-469f-a165-70867728950e,no such/list"}
    await queue.put_many(sorted(wrong))
    await services.subscriptions.subscribe(LIST, ANNA)
    postroom.start("sender")
    await until_empty(services)
    aside = await services.store.queue(poison_queue(CONFIRM_QUEUE)).peek(10)
    assert {message.body for message in aside} == wrong
    assert all("GUID,LISTNAME" in message.properties["error"] for message in aside)
    assert server.copies() == {ANNA: 1}


@ON_ONE_ENGINE
async def test_sigterm_while_one_is_on_its_way_finishes_it(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await make_list(services)
    server.script(Rule("end", wait=1.0, reply="250 2.0.0 slowly", times=1))
    await services.subscriptions.subscribe(LIST, ANNA)
    sender = postroom.start("sender")
    await until(lambda: len(server.received()) == 1, "nothing was sent")
    assert await asyncio.to_thread(postroom.stop, sender) == 0
    await until_empty(services)
    assert server.copies() == {ANNA: 1}


@ON_ONE_ENGINE
async def test_confirmations_wait_for_a_hold_and_none_is_lost(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await make_list(services)
    server.script(Rule("MAIL", reply="530 5.7.0 Authentication required"))
    people = {f"user{number}@example.com" for number in range(6)}
    for address in people:
        await services.subscriptions.subscribe(LIST, address)
    postroom.start("sender")
    await until(lambda: len(server.faults()) >= 3, "no probes")
    assert (await services.holds.open_holds()).by_key.keys() == {"account"}
    assert (await services.store.queue(CONFIRM_QUEUE).info()).length == len(people)
    assert len(server.faults()) <= 10, "single emails probe, with growing pauses"
    server.script()
    await until_empty(services)
    assert server.copies() == dict.fromkeys(people, 1)
    assert not await services.holds.open_holds()
