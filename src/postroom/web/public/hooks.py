"""`/hooks/PROVIDER`: what email providers report about emails after accepting them.

A request is acknowledged only after it is stored and queued. Without its provider's secret in the
settings, every request is refused.
"""

from __future__ import annotations

import logging
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.bounces import BounceSource
from postroom.services.audience.bounces.intake import LARGEST
from postroom.services.audience.bounces.providers.amazon_ses import AmazonSes
from postroom.services.audience.bounces.providers.hook_requests import (
    HookDecision,
    HookRefused,
    HookRequest,
    ProviderHook,
    check_shared_secret,
)
from postroom.services.audience.bounces.providers.provider_hooks import HOOKS
from postroom.storage import StoreError
from postroom.web.context import WebContext

log = logging.getLogger(__name__)

_BY_NAME: Final = {source.value: hook for source, hook in HOOKS.items()}
_ORIGIN: Final = "webhook-request-origin"


def hook_routes(context: WebContext) -> list[Route]:
    async def respond(request: Request) -> Response:
        try:
            return await _respond(context, request)
        except HookRefused as exc:
            return PlainTextResponse(f"{exc}\n", exc.status)
        except Invalid as exc:
            return PlainTextResponse(f"{exc}\n", 422)
        except StoreError as exc:
            log.warning("an event could not be stored, so its provider will send it again: %s", exc)
            text = "The store cannot be used at the moment; try again later.\n"
            return PlainTextResponse(text, 503, headers={"Retry-After": "60"})
        except ClientDisconnect:
            return Response(status_code=400)  # never read: the client is gone

    return [Route("/hooks/{provider}", respond, methods=["POST", "OPTIONS"], name="hooks")]


async def _respond(context: WebContext, request: Request) -> Response:
    hook = _BY_NAME.get(request.path_params["provider"])
    if hook is None:
        raise HookRefused(404, f"unknown provider: use one of {', '.join(sorted(_BY_NAME))}")
    secret = getattr(context.settings.bounces, hook.setting)
    if not secret:
        raise HookRefused(403, f"set POSTROOM_{hook.setting.upper()} before events are accepted")
    headers = {name.lower(): value for name, value in request.headers.items()}
    if request.method == "OPTIONS":
        return _handshake(hook, HookRequest(headers, dict(request.query_params), b""), secret)
    body = await _read(request)
    given = HookRequest(headers, dict(request.query_params), body)
    decision = await hook.verify(given, secret)
    if decision.visit:
        await _visit(hook, decision)
    if decision.keeps:
        await _keep(context, hook, decision, body)
    return JSONResponse({} if decision.body is None else decision.body)


def _handshake(hook: ProviderHook, request: HookRequest, secret: str) -> Response:
    """Confirm to Event Grid that it may send CloudEvents here."""
    if hook.source is not BounceSource.AZURE or _ORIGIN not in request.headers:
        raise HookRefused(405, "events are sent with POST")
    check_shared_secret(request, secret)
    allowed = {"WebHook-Allowed-Origin": request.headers[_ORIGIN], "WebHook-Allowed-Rate": "*"}
    return Response(status_code=200, headers=allowed)


async def _read(request: Request) -> bytes:
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > LARGEST:
            raise HookRefused(413, f"the body has more than {LARGEST:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)


async def _visit(hook: ProviderHook, decision: HookDecision) -> None:
    if isinstance(hook, AmazonSes):
        try:
            await hook.visit(decision.visit)
        except OSError as exc:
            raise HookRefused(503, f"the subscription cannot be confirmed: {exc}") from exc


async def _keep(
    context: WebContext, hook: ProviderHook, decision: HookDecision, body: bytes
) -> None:
    intake = context.services.bounce_intake
    if not decision.once:
        await intake.keep(body, hook.source)
    elif not await intake.keep_once(body, hook.source, decision.once):
        raise HookRefused(406, "this event was already received")
