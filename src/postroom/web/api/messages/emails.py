"""`/messages/{ref}/emails`: the outcome of each email."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import EmailOutcome
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.messages import EmailResource, describe_email
from postroom.web.api import field_types
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import call, index_of
from postroom.web.api.field_types import AddressPath, After, Body, Limit, RefPath
from postroom.web.api.routing import ApiRoute, respond, respond_with_items, services_of
from postroom.wiring import Services

router = APIRouter(route_class=ApiRoute, tags=["Messages"])


class Decision(Body):
    """About an email that a crash left in doubt."""

    email: field_types.Address
    decision: Annotated[
        Literal["sent", "resend"],
        Field(description="Whether it was sent, or is to be sent again."),
    ]


@router.get(
    "/messages/{ref}/emails",
    **call(Scope.MESSAGES, index_of(EmailResource), 404, right=ListRight.VIEW),
)
async def read_emails(
    request: Request,
    ref: RefPath,
    outcome: Annotated[EmailOutcome | None, Query(description="Filter by outcome.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Return the outcome of each email with the mail server's reply, sorted by address."""
    services = services_of(request)
    message = await services.messages.get(ref)
    cursor = Cursor(after, IndexName.EMAILS, message.ref)
    with cursor.checked():
        found = await services.outcomes.slice(
            message, outcome=outcome, limit=limit, after=cursor.last
        )
    return respond_with_items(map(describe_email, found.emails), cursor.next(found.next))


@router.get(
    "/messages/{ref}/emails/{email:path}",
    **call(Scope.MESSAGES, EmailResource, 404, right=ListRight.VIEW),
)
async def read_email(request: Request, ref: RefPath, email: AddressPath) -> Response:
    """Return the outcome of the email to one address."""
    return respond(await _email(services_of(request), ref, Address(email)))


@router.post(
    "/messages/{ref}/decide",
    **call(Scope.MESSAGES, EmailResource, 404, 409, right=ListRight.SEND),
)
async def decide(request: Request, ref: RefPath, body: Decision) -> Response:
    """Record the outcome of an email in doubt, or send it again."""
    services = services_of(request)
    message = await services.messages.get(ref)
    was_sent = body.decision == "sent"
    await services.in_doubt.decide(message, Address(body.email), was_sent=was_sent)
    return respond(await _email(services, ref, Address(body.email)))


async def _email(services: Services, ref: str, address: Address) -> EmailResource:
    message = await services.messages.get(ref)
    found = await services.outcomes.email(message, address)
    if found is None:
        raise NoSuch("email of this message to", address)
    return describe_email(found)
