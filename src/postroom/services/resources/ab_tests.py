"""A/B tests, as the API and the command line show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from postroom.domain.messages.messages import MessageStatus
from postroom.domain.messages.waves.ab_tests import AbState, Criterion
from postroom.services.audience.results.ab_views import AbVariant, AbView
from postroom.services.resources import Resource, Time, describe_time


class AbVariantResource(Resource, frozen=True):
    """A variant with its numbers."""

    letter: Annotated[str, Meta(pattern="^[A-D]$")]
    ref: Annotated[str, Meta(pattern="^[0-9]{18}$")]
    status: Annotated[MessageStatus | None, Meta(description="Null: the message was deleted.")]
    subject: str
    from_name: str
    accepted: int
    clicked: Annotated[int | None, Meta(description="Visits by people. Null: not measured.")]
    unsubscribed: int


class AbTestResource(Resource, frozen=True):
    """An A/B test. While it runs, `best` and `confidence` are those of the numbers so far."""

    ref: Annotated[str, Meta(description="The reference of variant A, which identifies the test.")]
    state: AbState
    share: Annotated[
        int, Meta(description="Percentage of the audience, for all variants together.")
    ]
    wait_minutes: int
    scheduled_at: Time | None
    decides_at: Annotated[
        Time | None,
        Meta(description="Null unless it is running, and all variants have been sent."),
    ]
    variants: Sequence[AbVariantResource]
    criterion: Annotated[
        Criterion | None, Meta(description="What decides. Null before anything was sent.")
    ]
    best: Annotated[
        str | None, Meta(description="The letter of the variant with the best numbers.")
    ]
    confidence: Annotated[float, Meta(description="In percent. A variant wins with at least 95.")]
    winner: Annotated[
        str | None, Meta(description="Its reference. Null: not decided, or no variant was better.")
    ]
    chosen_by: Annotated[str | None, Meta(description="Who chose the winner, if a person did.")]
    decided_at: Time | None
    rest: Annotated[
        str | None, Meta(description="The message to the rest of the audience, once it exists.")
    ]
    rest_status: MessageStatus | None
    problem: Annotated[str | None, Meta(description="Why the test cannot continue.")]


def describe_ab_test(view: AbView) -> AbTestResource:
    test, verdict = view.test, view.verdict
    is_decided = test.decided_at is not None
    now = (verdict.criterion, verdict.confidence) if verdict else (None, 0.0)
    criterion, confidence = (test.criterion, test.confidence) if is_decided else now
    return AbTestResource(
        ref=test.key,
        state=test.state,
        share=test.share,
        wait_minutes=test.wait_minutes,
        scheduled_at=describe_time(test.scheduled_at),
        decides_at=describe_time(view.decides_at),
        variants=[_describe_variant(each) for each in view.variants],
        criterion=criterion,
        best=view.best.letter if view.best else None,
        confidence=round(100 * confidence, 1),
        winner=test.winner or None,
        chosen_by=test.chosen_by or None,
        decided_at=describe_time(test.decided_at),
        rest=view.rest.ref if view.rest else None,
        rest_status=view.rest.status if view.rest else None,
        problem=test.problem or None,
    )


def _describe_variant(variant: AbVariant) -> AbVariantResource:
    message, figures = variant.message, variant.figures
    return AbVariantResource(
        letter=variant.letter,
        ref=variant.ref,
        status=message.status if message else None,
        subject=message.subject if message else "",
        from_name=message.from_name if message else "",
        accepted=figures.accepted,
        clicked=figures.clicks,
        unsubscribed=figures.unsubscribed,
    )
