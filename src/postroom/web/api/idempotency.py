"""Calls that a client may repeat: the same `Idempotency-Key`, the same answer, one effect."""

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
from postroom.web.api.routing import answer, key_of, services_of

Work = Callable[[Begun | None], Awaitable[tuple[int, dict[str, Any]]]]
Respond = Callable[[int, dict[str, Any]], Response]


def _plainly(status: int, content: dict[str, Any]) -> Response:
    return answer(content, status)


async def once(request: Request, work: Work, respond: Respond = _plainly) -> Response:
    """Do `work`, or answer as when it was done.

    A refusal is not kept: nothing happened, and the corrected request may use the same key. After
    a fault the record stays as it is, because nobody knows how far the work got.
    """
    client_key = request.headers.get(FIELD)
    if client_key is None:
        return respond(*await work(None))
    if not re.fullmatch(r"[\x20-\x7e]{1,255}", client_key):
        raise Invalid(FIELD, "has 1 to 255 printable ASCII characters; a UUID is a good one")
    idempotency = services_of(request).idempotency
    call = f"{request.method} {request.url.path}"
    fingerprint = fingerprint_of(await request.body())
    begun = await idempotency.begin(key_of(request).id, f"{call} {client_key}", fingerprint)
    if not isinstance(begun, Begun):
        response = respond(begun.status, msgspec.json.decode(begun.body))
        response.headers["Idempotent-Replayed"] = "true"
        return response
    try:
        status, content = await work(begun)
    except (DomainError, InvalidRequest):
        await idempotency.forget(begun)
        raise
    await idempotency.finish(begun, status, msgspec.json.encode(content).decode())
    return respond(status, content)
