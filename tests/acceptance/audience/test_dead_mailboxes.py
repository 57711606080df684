"""A mailbox that refuses an email because it does not exist gets no more mail, on any list."""

from collections.abc import Iterator

import pytest

from postroom.domain.messages.emails import Counts
from postroom.services.messages.message_contents import NewBodies
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom
from tests.contract.conftest import ON_ONE_ENGINE
from tests.integration.usecases.making import now
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.waiting import until

DEAD, ANN, OTHER = "dead@example.com", "ann@example.com", "other"


@pytest.fixture
def server() -> Iterator[RecordingSmtp]:
    with running_recording_smtp() as running:
        yield running


@ON_ONE_ENGINE
async def test_a_refused_dead_mailbox_is_suppressed_and_skipped_by_the_next_message(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    for name in (LIST, OTHER):
        await services.lists.create(name, "News", "news@contoso.example")
        for email in (DEAD, ANN):
            await services.subscriptions.add(name, email, verified=True)
    server.script(Rule("RCPT", "^dead@", "550 5.1.1 no such user"))
    postroom.start("up")

    assert await _sent(services, LIST) == Counts(planned=2, accepted=1, refused=1)

    async def is_suppressed() -> bool:
        return (await services.subscriptions.get(OTHER, DEAD)).is_suppressed

    await until(is_suppressed, "the mailbox is not suppressed on the other list")
    assert (await services.suppressions.get(DEAD)).diagnostic == "550 5.1.1 no such user"
    server.script()
    assert await _sent(services, OTHER) == Counts(planned=1, accepted=1)
    assert server.copies() == {ANN: 2}


async def _sent(services: Services, name: str) -> Counts:
    """Send a message; return its counts once it is done."""
    bodies = NewBodies(html="<p>News</p>", text="News")
    made = await services.messages.create(name, "News", bodies, now())

    async def is_done() -> bool:
        return (await services.messages.get(made.ref)).completed_at is not None

    await until(is_done, "the message is not done")
    return await services.outcomes.counts(await services.messages.get(made.ref))
