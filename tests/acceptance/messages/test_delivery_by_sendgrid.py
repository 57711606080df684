"""The whole way with `sendgrid://`: a real sender, and SendGrid's API played on loopback."""

import asyncio
import html
from typing import Any

import pytest

from postroom.domain.messages.messages import MessageStatus
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom, SumChecker, address_of, fill, schedule
from tests.services.mail.sendgrid_api import running_sendgrid_api
from tests.services.waiting import BUSY


@pytest.fixture
def engine() -> str:
    return "sqlite"


def mails(calls: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """What each recipient would get: SendGrid puts the values in."""
    found: dict[str, dict[str, str]] = {}
    for call in calls:
        contents = {each["type"]: each["value"] for each in call["content"]}
        for person in call["personalizations"]:
            mail = {**call["headers"], **person["headers"], "Subject": call["subject"], **contents}
            for placeholder, value in person["substitutions"].items():
                mail = {name: text.replace(placeholder, value) for name, text in mail.items()}
            [to] = person["to"]
            assert to["email"] not in found, "twice"
            found[to["email"]] = mail
    return found


async def test_every_recipient_gets_an_individual_email_in_few_calls(
    postroom: Postroom, services: Services
) -> None:
    await fill(services, 250)
    async with running_sendgrid_api() as api:
        postroom.transport = f"sendgrid://{api.host}"
        postroom.settings["sendgrid_api_key"] = "SG.key"
        message = await schedule(services, "News for {{ email }}")
        postroom.start("scheduler")
        postroom.start("sender")
        done, counts = await SumChecker(services, message).until_done()

    assert done.status is MessageStatus.COMPLETED
    assert counts.accepted == counts.planned == 250
    assert 1 <= len(api.calls) <= 3  # pages that are sent together share a call
    found = mails(api.calls)
    assert set(found) == {address_of(number) for number in range(250)}
    assert len({mail["Message-ID"] for mail in found.values()}) == 250
    for address, mail in found.items():
        subscriber = await services.subscriptions.get(LIST, address)
        own = f"id={subscriber.guid}&listName={LIST}&ref={message.ref}"
        link = f"http://localhost:8420/unsubscribe?{own}"
        assert mail["Subject"] == f"News for {address}"
        assert f"<p>Hello {address}</p>" in mail["text/html"]
        assert f'href="{html.escape(link)}"' in mail["text/html"]
        assert f"Hello {address}\n" in mail["text/plain"]
        assert link in mail["text/plain"]
        assert mail["List-Unsubscribe"] == f"<{link}>"
        assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        assert mail["List-Id"].endswith(f"<{LIST}.contoso.example>")
    assert api.calls[0]["from"] == {"email": "news@contoso.example", "name": "Contoso's news"}


async def test_a_confirmation_goes_the_same_way(postroom: Postroom, services: Services) -> None:
    await fill(services, 0)
    async with running_sendgrid_api() as api:
        postroom.transport = f"sendgrid://{api.host}"
        postroom.settings["sendgrid_api_key"] = "SG.key"
        await services.subscriptions.subscribe(LIST, "anna@example.com")
        process = postroom.start("sender")
        for _ in range(1200 * BUSY):
            if api.calls:
                break
            await asyncio.sleep(0.05)
        assert await asyncio.to_thread(postroom.stop, process) == 0
    [(address, mail)] = mails(api.calls).items()
    subscriber = await services.subscriptions.get(LIST, address)
    assert (
        f"http://localhost:8420/confirm?id={subscriber.guid}&listName={LIST}" in mail["text/plain"]
    )
    assert mail["Auto-Submitted"] == "auto-generated"
    assert not [name for name in mail if name.startswith("List-")]
