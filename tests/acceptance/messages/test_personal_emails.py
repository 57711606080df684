"""Emails with the fields of their recipients, sent by real processes."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from postroom.domain.audience.fields import Field
from postroom.services.messages.message_contents import NewBodies
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom, SumChecker, address_of, fill
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.unit.mail.strict import bodies, parse

HOSTILE = "<img src=x onerror=alert(1)>\r\nBcc: victim@example.org"


@pytest.fixture
def server() -> Iterator[RecordingSmtp]:
    with running_recording_smtp() as running:
        yield running


@pytest.mark.timeout(120)
async def test_each_email_has_the_values_that_its_recipient_had_when_it_was_queued(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    """A retry has the same values, though they have changed since."""
    postroom.settings["retry_first"] = "1s"
    await fill(services, 130)
    await services.fields.declare(LIST, [Field("city")])
    for number in range(0, 130, 2):
        name = HOSTILE if number == 4 else f"Zoë {number}"
        await services.subscriptions.edit(
            LIST, address_of(number), attributes={"first_name": name, "city": "Bern"}
        )
    server.script(Rule("RCPT", match="user000002@", reply="451 4.2.1 later", times=1))
    message = await services.messages.create(
        LIST,
        'Hello {{ first_name | default: "friend" }}',
        NewBodies('<p>{{ first_name | default: "you" }} in {{ city | default: "town" }}</p>'),
        datetime.now(UTC),
    )
    postroom.start("scheduler")
    postroom.start("sender")
    checker = SumChecker(services, message)
    await checker.until(lambda _, counts: counts.deferred > 0, seconds=30, why="nothing deferred")
    await services.subscriptions.edit(
        LIST, address_of(2), attributes={"first_name": "Changed", "city": "Basel"}
    )
    _, counts = await checker.until_done()
    assert counts.accepted == 130
    mails = {mail.recipients[0]: parse(mail.content) for mail in server.accepted()}
    for number in range(130):
        mail = mails[address_of(number)]
        both = bodies(mail)
        if number % 2:
            assert mail["subject"] == "Hello friend"
            assert "<p>you in town</p>" in both["text/html"]
            assert both["text/plain"].startswith("you in town")
        elif number != 4:
            assert mail["subject"] == f"Hello Zoë {number}"
            assert f"<p>Zoë {number} in Bern</p>" in both["text/html"]
    hostile = mails[address_of(4)]
    assert hostile["bcc"] is None
    assert hostile["subject"] == "Hello <img src=x onerror=alert(1)> Bcc: victim@example.org"
    assert "&lt;img src=x onerror=alert(1)&gt;\nBcc" in bodies(hostile)["text/html"]
