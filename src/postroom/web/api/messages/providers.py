"""`/providers`: how fast each mailbox provider gets your emails."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Path
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.messages.delivery.providers import PROVIDER_PATTERN, Provider, parse_provider
from postroom.services.accounts.api_keys import Scope
from postroom.services.messages.sending.provider_rates import (
    LEAST_PER_SECOND,
    MOST_CONNECTIONS,
    MOST_PER_CONNECTION,
    MOST_PER_SECOND,
    MOST_REST_MINUTES,
)
from postroom.services.resources.deliverability.providers import ProviderResource, describe_provider
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import call, index_of
from postroom.web.api.field_types import After, Change, Limit, in_path, whole_number
from postroom.web.api.routing import ApiRoute, respond, respond_with_items, services_of

router = APIRouter(route_class=ApiRoute, tags=["Providers"])

ProviderPath = Annotated[
    str,
    Path(description="A domain of the provider."),
    AfterValidator(in_path("provider", parse_provider)),
    WithJsonSchema(
        {"type": "string", "pattern": f"^{PROVIDER_PATTERN}$", "examples": ["gmail.com"]}
    ),
]


class ProviderChange(Change):
    """Fields that are left out stay as they are; null means no limit of your own."""

    nullable = frozenset(
        {"max_per_second", "max_connections", "max_emails_per_connection", "min_rest_minutes"}
    )

    max_per_second: (
        Annotated[
            float,
            Field(
                ge=LEAST_PER_SECOND,
                le=MOST_PER_SECOND,
                description="Emails per second that are never exceeded.",
            ),
        ]
        | None
    ) = None
    max_connections: (
        Annotated[
            int,
            Field(
                ge=1,
                le=MOST_CONNECTIONS,
                description="Emails in progress at the same time, for all senders together.",
            ),
            BeforeValidator(whole_number),
        ]
        | None
    ) = None
    max_emails_per_connection: (
        Annotated[
            int,
            Field(
                ge=1,
                le=MOST_PER_CONNECTION,
                description="Emails to it that one connection to the mail server carries.",
            ),
            BeforeValidator(whole_number),
        ]
        | None
    ) = None
    min_rest_minutes: (
        Annotated[
            int,
            Field(
                ge=0,
                le=MOST_REST_MINUTES,
                description="How long it gets no emails after throttling them.",
            ),
            BeforeValidator(whole_number),
        ]
        | None
    ) = None


@router.get("/providers", **call(Scope.MESSAGES, index_of(ProviderResource), 404))
async def read_providers(request: Request, limit: Limit = 100, after: After = None) -> Response:
    """Return the providers that are limited or held, and the largest others, by name."""
    cursor = Cursor(after, IndexName.PROVIDERS)
    every = await services_of(request).provider_overview.all()
    found = [each for each in every if each.provider > (cursor.last or "")]
    last = found[limit - 1].provider if len(found) > limit else None
    return respond_with_items(map(describe_provider, found[:limit]), cursor.next(last))


_ONE: Final = call(Scope.MESSAGES, ProviderResource, 404)


@router.get("/providers/{provider}", **_ONE)
async def read_provider(request: Request, provider: ProviderPath) -> Response:
    """Return a provider, even if nothing is known about it."""
    return await _respond_with(request, provider)


@router.patch("/providers/{provider}", **_ONE)
async def limit_provider(
    request: Request, provider: ProviderPath, body: ProviderChange
) -> Response:
    """Limit how fast a provider gets your emails, or remove the limits."""
    rates = services_of(request).provider_rates
    changes = body.model_dump(exclude_unset=True)
    found = await rates.get(Provider(provider))
    limit = msgspec.structs.replace(
        found.limit, **{name.partition("_")[2]: value for name, value in changes.items()}
    )
    await rates.set_limit(Provider(provider), limit)
    return await _respond_with(request, provider)


@router.post("/providers/{provider}/reset", **_ONE)
async def reset_provider(request: Request, provider: ProviderPath) -> Response:
    """Forget the rate that was learned from a provider's replies. Limits stay."""
    await services_of(request).provider_rates.forget(Provider(provider))
    return await _respond_with(request, provider)


async def _respond_with(request: Request, provider: str) -> Response:
    status = await services_of(request).provider_overview.get(Provider(provider))
    return respond(describe_provider(status))
