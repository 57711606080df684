"""How much of a request's body is taken."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive

# A browser that is still sending does not read: so much more is taken off it before it is refused.
_DRAINED = 16 * 1024 * 1024


def limited(request: Request, most: int) -> Receive:
    """Receives for the request until the body has more than `most` bytes: then 413."""
    announced = request.headers.get("content-length", "")
    is_too_large = announced.isdecimal() and len(announced) < 19 and int(announced) > most
    taken = 0

    async def receive() -> Message:
        nonlocal taken, is_too_large
        message = await request.receive()
        taken += len(message.get("body", b""))
        is_too_large = is_too_large or taken > most
        while is_too_large and message.get("more_body") and taken < most + _DRAINED:
            message = await request.receive()
            taken += len(message.get("body", b""))
        if is_too_large:
            raise HTTPException(413, f"What was sent is larger than {_shown(most)}.")
        return message

    return receive


def _shown(size: int) -> str:
    return f"{size // 1024**2} MB" if size >= 1024**2 else f"{size // 1024} KB"
