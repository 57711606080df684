"""`/messages/{ref}/emails`: what became of each email."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import EmailOutcome
from postroom.services import shapes
from postroom.services.accounts.api_keys import Scope
from postroom.web.api.docs.documenting import problems
from postroom.web.api.fields import AddressPath, After, Limit, RefPath
from postroom.web.api.models import Decision
from postroom.web.api.paging import Kind, Place
from postroom.web.api.results import EmailResult, Index
from postroom.web.api.routing import ApiRoute, answer, index, scoped, services_of
from postroom.wiring import Services

router = APIRouter(route_class=ApiRoute, tags=["Messages"])
_NEEDS: dict[str, Any] = scoped(Scope.MESSAGES)


@router.get(
    "/messages/{ref}/emails",
    response_model=Index[EmailResult],
    responses=problems(404),
    openapi_extra=_NEEDS,
)
async def read_emails(
    request: Request,
    ref: RefPath,
    outcome: Annotated[EmailOutcome | None, Query(description="Only those.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """What became of each email, with the mail server's reply, in the order of addresses."""
    services = services_of(request)
    message = await services.messages.get(ref)
    place = Place(after, Kind.EMAILS, message.ref)
    with place.checked():
        page = await services.outcomes.page(message, outcome=outcome, limit=limit, after=place.last)
    return index(map(shapes.of_email, page.emails), place.next(page.next))


@router.get(
    "/messages/{ref}/emails/{email:path}",
    response_model=EmailResult,
    responses=problems(404),
    openapi_extra=_NEEDS,
)
async def read_email(request: Request, ref: RefPath, email: AddressPath) -> Response:
    """What became of the email to one address."""
    return answer(await _email(services_of(request), ref, Address(email)))


@router.post(
    "/messages/{ref}/decide",
    response_model=EmailResult,
    responses=problems(404, 409),
    openapi_extra=_NEEDS,
)
async def decide(request: Request, ref: RefPath, body: Decision) -> Response:
    """Decide about an email that a crash left in doubt."""
    services = services_of(request)
    message = await services.messages.get(ref)
    was_sent = body.decision == "sent"
    await services.doubts.decide(message, Address(body.email), was_sent=was_sent)
    return answer(await _email(services, ref, Address(body.email)))


async def _email(services: Services, ref: str, address: Address) -> dict[str, Any]:
    message = await services.messages.get(ref)
    found = await services.outcomes.email(message, address)
    if found is None:
        raise NoSuch("email of this message to", address)
    return shapes.of_email(found)
