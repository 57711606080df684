"""A sender's memory of messages and their emails."""

import asyncio

import msgspec

from postroom.domain.errors import NotNow
from postroom.domain.messages.attachments import describe_file
from postroom.sender.mailings import Mailings
from postroom.services.messages.drafts.stored_attachments import AttachedFiles
from postroom.wiring import Services
from tests.integration.usecases.making import fill, make_list, schedule
from tests.integration.usecases.pages import fan_out_whole
from tests.unit.mail.mailings import recipient


async def test_pages_that_begin_together_share_one_mail(services: Services) -> None:
    await fill(services.store, await make_list(services), 3)
    message = await fan_out_whole(services.store, (await schedule(services)).ref)
    mailings = Mailings(services, "http://localhost")
    made = await asyncio.gather(*(mailings.mailing(message) for _ in range(20)))
    assert len({id(each) for each in made}) == 1
    assert await mailings.mailing(message) is made[0]


async def test_a_few_messages_are_remembered(services: Services) -> None:
    await fill(services.store, await make_list(services), 3)
    messages = [
        await fan_out_whole(services.store, (await schedule(services)).ref) for _ in range(10)
    ]
    mailings = Mailings(services, "http://localhost")
    made = [await mailings.mailing(each) for each in messages]
    assert await mailings.mailing(messages[-1]) is made[-1]
    assert await mailings.mailing(messages[0]) is not made[0], "its bodies are not kept for ever"


async def test_a_renamed_attachment_is_composed_again(services: Services) -> None:
    await fill(services.store, await make_list(services), 3)
    message = await fan_out_whole(services.store, (await schedule(services)).ref)
    file = describe_file("plan.txt", b"Hi")
    await AttachedFiles(services.store).put(message.ref, {file.hash: b"Hi"})
    mailings = Mailings(services, "http://localhost")
    for name in (b"plan.txt", b"agenda.txt"):
        attached = msgspec.structs.replace(file, name=name.decode())
        mailing = await mailings.mailing(msgspec.structs.replace(message, attachments=(attached,)))
        assert name in mailing.mail(recipient())


async def test_an_email_that_cannot_be_composed_is_tried_once_for_all_who_wait(
    services: Services,
) -> None:
    await fill(services.store, await make_list(services), 3)
    early = await schedule(services)
    mailings = Mailings(services, "http://localhost")
    failures = await asyncio.gather(
        *(mailings.mailing(early) for _ in range(20)), return_exceptions=True
    )
    assert all(isinstance(each, NotNow) for each in failures)
    assert len({id(each) for each in failures}) == 1
    message = await fan_out_whole(services.store, early.ref)
    assert (await mailings.mailing(message)).subject == "News"
