"""Full mailboxes are suppressed after five bounces in a row: an email that was delivered in between
starts the row again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.refs import MessageRef
from postroom.scheduler.completion import Completion
from postroom.sender.pages.settling import settled
from postroom.services.messages.sending.holds import Holds
from postroom.wiring import Services
from tests.integration.usecases.making import days, make_list, schedule
from tests.integration.usecases.pages import claimed, fan_out_whole, record

ANN = Address("Ann@example.com")
BOUNCED = (40, 33, 19, 12, 0)
"""Days ago."""


@pytest.fixture(params=["sqlite"])  # nothing here depends on the engine
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def bounce(days_ago: float, ref: MessageRef | None = None) -> Bounce:
    return Bounce(
        BounceKind.FULL,
        f"{days_ago} days ago, {ref}",
        BounceSource.SMTP,
        days(-days_ago),
        address=ANN,
        ref=ref,
        diagnostic="552 5.2.2 Mailbox full",
    )


async def sent(services: Services, days_ago: float, outcome: EmailOutcome) -> MessageRef:
    """Send a message to Ann, whose email had this outcome some days ago."""
    message = await fan_out_whole(services.store, (await schedule(services)).ref)
    page = await claimed(services.store, message, 0)
    at = days(-days_ago)
    after = settled(page, {0: EmailState(outcome, "250 ok", 1, at=at)}, Holds(), at)
    await record(services.store, page, after)
    assert await Completion(services).check(message)
    return message.ref


@pytest.mark.parametrize(
    ("days_ago", "outcome", "has_bounced", "is_suppressed"),
    [
        (26, EmailOutcome.ACCEPTED, False, False),
        (26, EmailOutcome.ACCEPTED, True, True),
        (26, EmailOutcome.REFUSED, False, True),
        (3, EmailOutcome.ACCEPTED, False, True),  # it may still bounce
        (60, EmailOutcome.ACCEPTED, False, True),  # before the first one
        (8, EmailOutcome.ACCEPTED, False, False),
    ],
)
async def test_only_an_email_that_was_delivered_in_between_starts_the_row_again(
    services: Services,
    days_ago: float,
    outcome: EmailOutcome,
    has_bounced: bool,
    is_suppressed: bool,
) -> None:
    name = await make_list(services)
    await services.subscriptions.add(name, ANN, verified=True)
    ref = await sent(services, days_ago, outcome)
    if has_bounced:
        await services.suppressions.record(bounce(days_ago - 1, ref))
    for each in BOUNCED:
        await services.suppressions.record(bounce(each))
    found = await services.suppressions.of_address(ANN)
    assert bool(found) is is_suppressed
    assert (await services.subscriptions.get(name, ANN)).is_suppressed is is_suppressed
    for suppression in found:
        assert suppression.expires_at is not None
        assert timedelta(days=89) < suppression.expires_at - days(0) <= timedelta(days=90)
