"""Calls that a client may repeat: the same `Idempotency-Key`, the same response, one effect."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.errors import DomainError, Invalid
from postroom.services.idempotency import FIELD, Begun, fingerprint_of
from postroom.storage import InvalidRequest
from postroom.web.api.routing import key_of, respond, services_of

Work = Callable[[Begun | None], Awaitable[tuple[int, Any]]]
Respond = Callable[[int, Any], Response]


def _plain_response(status: int, content: Any) -> Response:
    return respond(content, status)


async def once(request: Request, work: Work, response_of: Respond = _plain_response) -> Response:
    """Do `work`, or return the response of the first request with this key.

    A refusal is not kept: nothing happened, and the corrected request may use the same key. After
    a fault the record stays: nobody knows how far the work got.
    """
    client_key = request.headers.get(FIELD)
    if client_key is None:
        return response_of(*await work(None))
    if not re.fullmatch(r"[\x20-\x7e]{1,255}", client_key):
        raise Invalid(FIELD, "must have 1 to 255 printable ASCII characters, such as a UUID")
    idempotency = services_of(request).idempotency
    call = f"{request.method} {request.url.path}"
    fingerprint = fingerprint_of(await request.body())
    begun = await idempotency.begin(key_of(request).id, f"{call} {client_key}", fingerprint)
    if not isinstance(begun, Begun):
        response = response_of(begun.status, msgspec.json.decode(begun.body))
        response.headers["Idempotent-Replayed"] = "true"
        return response
    try:
        status, content = await work(begun)
    except (DomainError, InvalidRequest):
        await idempotency.forget(begun)
        raise
    await idempotency.finish(begun, status, msgspec.json.encode(content).decode())
    return response_of(status, content)
