"""`/messages/{ref}/ab-test`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import NoSuch, NotNow
from postroom.domain.messages.waves.ab_tests import (
    HIGHEST_SHARE,
    LONGEST_WAIT,
    LOWEST_SHARE,
    MOST_VARIANTS,
    SHARE,
    WAIT_MINUTES,
    AbState,
    AbTest,
)
from postroom.services.accounts.api_keys import Scope
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.resources.ab_tests import AbTestResource, describe_ab_test
from postroom.web.api.documenting import PLACE, call
from postroom.web.api.field_types import (
    Body,
    FromName,
    Moment,
    RefPath,
    Subject,
    Text,
    whole_number,
)
from postroom.web.api.key_rights import is_limited, messages_of, require_right_on
from postroom.web.api.messages.message_models import storable
from postroom.web.api.routing import ApiRoute, author_of, respond, services_of

router = APIRouter(route_class=ApiRoute, tags=["Messages"])


class NewVariant(Body):
    """How a variant differs from the message. Change anything else in its draft."""

    subject: Subject | None = None
    from_name: FromName | None = None
    body: Annotated[Text | None, Field(description="The source, in the format of the message.")] = (
        None
    )


class NewAbTest(Body):
    """The variants in addition to the message itself, and how they are tested."""

    variants: Annotated[
        list[NewVariant],
        Field(
            max_length=MOST_VARIANTS - 1, description="May be empty if the test has been prepared."
        ),
    ] = []  # noqa: RUF012
    draft: Annotated[
        bool,
        Field(
            description="Only prepare the test, so that the drafts of its variants can be edited."
        ),
    ] = False
    share: Annotated[
        int,
        BeforeValidator(whole_number),
        Field(
            ge=LOWEST_SHARE,
            le=HIGHEST_SHARE,
            description="Percentage of the audience that gets a variant, divided equally.",
        ),
    ] = SHARE
    wait_minutes: Annotated[
        int,
        BeforeValidator(whole_number),
        Field(ge=1, le=LONGEST_WAIT, description="How long to wait before the winner is decided."),
    ] = WAIT_MINUTES
    scheduled_at: Annotated[
        Moment | None, Field(description="If omitted: the time of the draft, or now.")
    ] = None


class Winner(Body):
    """The variant to send to the rest."""

    winner: Annotated[str, Field(pattern="^[0-9]{18}$", description="The reference of a variant.")]


@router.post(
    "/messages/{ref}/ab-test",
    **call(Scope.MESSAGES, AbTestResource, 404, 409, right=ListRight.SEND, status=201),
)
async def create_ab_test(request: Request, ref: RefPath, body: NewAbTest) -> Response:
    """Test variants of a draft, and send the best one to the rest of its audience.

    The variants are drafts, and are scheduled within seconds. If one of them cannot be sent, they
    stay drafts: correct it, and repeat the call without `variants`.
    """
    service = services_of(request).ab_tests
    _ = await services_of(request).messages.get(ref)
    test = await service.rows.of(ref)
    if test is None or test.state is not AbState.DRAFT or body.variants:
        if not (body.variants or body.draft):
            raise NotNow("an A/B test needs at least two variants: add one to `variants`")
        test = await service.create(ref, author_of(request))
    else:
        await _checked(request, test, ListRight.SEND)
    for each in body.variants:
        given = each.model_dump(exclude_none=True)
        await service.add(test.key, ContentChange(**given), author_of(request))
    if not body.draft:
        now = datetime.now(UTC)
        test = await service.start(
            test.key,
            share=body.share,
            wait_minutes=body.wait_minutes,
            at=storable(body.scheduled_at, now),
        )
    else:
        test = await service.get(test.key)
    described = describe_ab_test(await service.view(test))
    return respond(described, 201, {"Location": f"{PLACE}/messages/{test.key}/ab-test"})


@router.get(
    "/messages/{ref}/ab-test",
    **call(Scope.MESSAGES, AbTestResource, 404, right=ListRight.VIEW),
)
async def read_ab_test(request: Request, ref: RefPath) -> Response:
    """Return the A/B test that a message is in, as a variant or as the rest."""
    return await _described(request, await _known(request, ref, ListRight.VIEW))


@router.post(
    "/messages/{ref}/ab-test/winner",
    **call(Scope.MESSAGES, AbTestResource, 404, 409, right=ListRight.SEND),
)
async def choose_winner(request: Request, ref: RefPath, body: Winner) -> Response:
    """End an A/B test now, and send this variant to the rest of the audience within seconds."""
    test = await _known(request, ref, ListRight.SEND)
    who = author_of(request)
    chosen = await services_of(request).ab_tests.choose(test.key, body.winner, who)
    return await _described(request, chosen)


@router.delete(
    "/messages/{ref}/ab-test",
    **call(Scope.MESSAGES, None, 404, 409, right=ListRight.SEND),
)
async def cancel_ab_test(request: Request, ref: RefPath) -> Response:
    """Cancel an A/B test: nothing is sent to the rest of the audience.

    Variants whose sending has not started are cancelled, too. A test that was only prepared is
    removed, and its variants become ordinary drafts.
    """
    test = await _known(request, ref, ListRight.SEND)
    await services_of(request).ab_tests.cancel(test.key)
    return Response(status_code=204)


async def _known(request: Request, ref: str, right: ListRight) -> AbTest:
    return await _checked(request, await services_of(request).ab_tests.get(ref), right)


async def _checked(request: Request, test: AbTest, right: ListRight) -> AbTest:
    """Return a test if the key has a right on the lists of all its messages. `NoSuch`."""
    if not is_limited(request):
        return test
    visible = messages_of(request)
    for message in (await services_of(request).ab_tests.view(test)).messages:
        if not visible.sees(message):
            raise NoSuch("A/B test of the message", test.key)
        require_right_on(request, right, message)
    return test


async def _described(request: Request, test: AbTest) -> Response:
    return respond(describe_ab_test(await services_of(request).ab_tests.view(test)))
