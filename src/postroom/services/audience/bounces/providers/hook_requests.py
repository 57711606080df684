"""What the webhooks of all providers have in common."""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from hmac import compare_digest
from typing import Any, ClassVar

import msgspec

from postroom.domain.messages.delivery.bounces import BounceSource
from postroom.errors import PostroomError
from postroom.services.audience.bounces.reports import BounceReport


class HookRefused(PostroomError):
    """A webhook request that does not prove where it comes from, or that makes no sense."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class HookRequest(msgspec.Struct, frozen=True):
    """A request as it arrived. Names of headers are in lower case."""

    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


class HookDecision(msgspec.Struct, frozen=True):
    """What to do with a request that is genuine. `keeps`: store and queue it. `once` is a token
    that must not be accepted twice; `visit` is a URL to open, which confirms a subscription."""

    keeps: bool = True
    body: Any = None
    once: str = ""
    visit: str = ""


class ProviderHook(ABC):
    """One provider's webhook."""

    source: ClassVar[BounceSource]
    setting: ClassVar[str]
    """The setting without which its events are refused."""

    headers: ClassVar[Mapping[str, str]] = {}
    """Headers of an email that this provider repeats in its events; `TOKEN` is our token."""

    @abstractmethod
    async def verify(self, request: HookRequest, secret: Any) -> HookDecision:
        """Return what to do with a genuine request. `HookRefused`."""

    @abstractmethod
    def reports(self, content: bytes) -> list[BounceReport]:
        """Return what stored events report. Unknown events report nothing."""


def check_shared_secret(request: HookRequest, secret: str) -> None:
    """Check the secret of a provider that signs nothing: the password of basic authentication, or
    `?secret=` in the URL. `HookRefused`."""
    given = request.query.get("secret", "")
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(encoded, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            given = ""
    if not compare_digest(given.encode(), secret.encode()):
        raise HookRefused(401, "the secret is missing or wrong")


def parse_json(content: bytes) -> Any:
    """Return the JSON of a request. `HookRefused`."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise HookRefused(400, "the body must be JSON") from exc


def objects(value: Any) -> Sequence[dict[str, Any]]:
    """Return the objects of a JSON array, or the single object."""
    found = value if isinstance(value, list) else [value]
    return [each for each in found if isinstance(each, dict)]


def text_at(value: Any, *path: str) -> str:
    """Return the text or number at a path of a JSON object; empty if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    return str(value)


def as_text(value: Any) -> str:
    """Return an event as text, in which our identifiers are looked for."""
    return msgspec.json.encode(value).decode()
