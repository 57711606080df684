"""Which calls go past FastAPI's search for arguments, and which are left to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from postroom.web.api.app import ROUTERS
from postroom.web.api.short_calls import Handler, shortened


class Order(BaseModel):
    count: int


router = APIRouter()


@router.post("/orders")
async def order(request: Request, body: Order) -> Response:
    return Response(f"ordered {body.count} at {request.url.path}")


@router.post("/shops/{shop}/orders")
async def order_there(request: Request, shop: str, body: Order) -> Response:
    return Response("there")


async def fastapis_own(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("left to FastAPI")(scope, receive, send)


async def unchecked(request: Request, handle: Handler) -> Response:
    return await handle(request)


def route_of(path: str) -> APIRoute:
    [found] = [r for r in router.routes if isinstance(r, APIRoute) and r.path == path]
    return found


async def sent(body: bytes) -> str:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/orders", "headers": []}
    scope |= {"query_string": b"", "server": ("localhost", 80), "scheme": "http"}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await shortened(route_of("/orders"), unchecked, fastapis_own)(scope, receive, send)
    return b"".join(each.get("body", b"") for each in sent).decode()


async def test_a_good_body_goes_straight_to_the_call() -> None:
    assert await sent(b'{"count": 3}') == "ordered 3 at /orders"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"count": "x"}',
        b"\xff",
        b"[" * 100_000,
        json.dumps({}).encode(),
    ],
)
async def test_a_body_with_a_fault_is_left_to_fastapi_which_reports_it(body: bytes) -> None:
    assert await sent(body) == "left to FastAPI"


def test_a_call_with_other_parameters_is_left_to_fastapi() -> None:
    route = route_of("/shops/{shop}/orders")
    assert shortened(route, unchecked, fastapis_own) is fastapis_own


def test_a_sign_up_takes_the_short_path() -> None:
    [route] = [
        route
        for each in ROUTERS
        for route in each.routes
        if isinstance(route, APIRoute) and route.path == "/subscribe"
    ]
    assert shortened(route, unchecked, fastapis_own) is not fastapis_own
