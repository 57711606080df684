"""Reads the API of a listmonk installation: its lists, and the subscribers of one of them.

Requests go only to the URL that someone gave. Redirects are not followed: they would take the
credentials elsewhere. The host is looked up once, all its addresses are judged, and connections go
to one of these, whatever DNS says later. The credentials stay in memory.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from postroom.domain.errors import Invalid
from postroom.errors import PostroomError
from postroom.mail.wire_addresses import ascii_domain

PER_PAGE: Final = 500
"""Subscribers per request. Installations that allow fewer send fewer."""
_SECONDS: Final = 20.0
_LARGEST_RESPONSE: Final = 64 * 1024 * 1024  # 500 subscribers with 16 KB of attributes take 8 MB
_MOST_PAGES: Final = 1_000_000
_TRIES: Final = 2
_SAFE: Final = "/%:@!$&'()*+,;=~"

MayConnect = Callable[[str, int], bool]
"""Return whether a connection to an IP address and port is allowed."""

T = TypeVar("T")


def anywhere(address: str, port: int) -> bool:
    """Allow every address: for an operator on the command line, who may mean a private one."""
    return True


class ListmonkAccount:
    """The URL of an installation, and a user of its API. No text of it shows the token."""

    def __init__(self, url: str, user: str, token: str) -> None:
        """`Invalid`."""
        self.url = url.strip().rstrip("/")
        try:
            parts = urlsplit(self.url)
            self.port = parts.port or (443 if parts.scheme == "https" else 80)
            host = parts.hostname or ""
            self.host = host if host.isascii() else ascii_domain(host)
        except (ValueError, PostroomError) as exc:
            raise Invalid("url", f"must be a URL, not {self.url[:100]!r}") from exc
        if parts.scheme not in ("http", "https") or not self.host or not self.url.isprintable():
            problem = "must be a URL such as https://listmonk.example.org, not"
            raise Invalid("url", f"{problem} {self.url[:100]!r}")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise Invalid("url", "must be only the address of listmonk, without a user or a query")
        if not user.strip() or ":" in user:
            raise Invalid("user", "must be the name of an API user of listmonk, without a colon")
        if not token.strip():
            raise Invalid("token", "must not be empty: it is the access token of the API user")
        self.is_https = parts.scheme == "https"
        self.path = quote(parts.path, safe=_SAFE)
        credentials = base64.b64encode(f"{user.strip()}:{token.strip()}".encode()).decode()
        self.authorization = f"Basic {credentials}"


class ListmonkList(msgspec.Struct, frozen=True):
    """A list of listmonk."""

    id: int
    name: str
    optin: str = ""
    subscriber_count: int = 0


class Subscription(msgspec.Struct, frozen=True):
    """How a subscriber stands on one list of listmonk."""

    id: int
    subscription_status: str = ""


class ListmonkSubscriber(msgspec.Struct, frozen=True):
    """A subscriber of listmonk, on some of its lists."""

    email: str
    uuid: str = ""
    name: str = ""
    status: str = ""
    attribs: Any = None
    created_at: str | None = None
    lists: list[Subscription] | None = None


class _Lists(msgspec.Struct):
    results: list[ListmonkList] | None = None
    total: int = 0


class SubscriberPart(msgspec.Struct):
    """Some subscribers of a list, in the order of their numbers, and how many there are."""

    results: list[ListmonkSubscriber] | None = None
    total: int = 0


class _Answer(msgspec.Struct):
    data: msgspec.Raw


class ListmonkApi:
    """Reads one installation."""

    def __init__(self, account: ListmonkAccount, may_connect: MayConnect) -> None:
        self._account = account
        self._may_connect = may_connect
        self._address = ""

    async def lists(self) -> list[ListmonkList]:
        """Return all lists. `Invalid` if they cannot be read."""
        found: list[ListmonkList] = []
        for page in range(1, _MOST_PAGES):
            part = await self._get("/api/lists", _Lists, page=page, per_page=PER_PAGE)
            found += part.results or []
            if not part.results or len(found) >= part.total:
                break
        return found

    async def list(self, wanted: str) -> ListmonkList:
        """Return a list by its name or number. `Invalid`."""
        lists = await self.lists()
        name = wanted.strip()
        found = [each for each in lists if name in (each.name.strip(), str(each.id))]
        if len(found) == 1:
            return found[0]
        shown = ", ".join(f"{each.name} ({each.id})" for each in lists[:20]) or "none"
        what = "are several lists" if found else "is no list"
        raise Invalid("list", f"there {what} {name[:100]!r} in listmonk. Its lists: {shown}")

    async def subscribers(self, list_id: int) -> AsyncIterator[SubscriberPart]:
        """Yield all subscribers of a list, page by page. `Invalid` if they cannot be read."""
        seen = 0
        for page in range(1, _MOST_PAGES):
            part = await self._get(
                "/api/subscribers",
                SubscriberPart,
                list_id=list_id,
                page=page,
                per_page=PER_PAGE,
                order_by="id",
                order="asc",
            )
            if not part.results:
                return
            yield part
            seen += len(part.results)
            if seen >= part.total:
                return

    async def _get(self, path: str, kind: type[T], **query: str | int) -> T:
        target = f"{self._account.path}{path}?{urlencode(query)}"
        body = await asyncio.to_thread(self._read, target)
        try:
            return msgspec.json.decode(msgspec.json.decode(body, type=_Answer).data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise Invalid("url", f"does not respond like listmonk: {exc}") from exc

    def _read(self, target: str) -> bytes:
        """Return the body of a response. It blocks. `Invalid`."""
        status, body = self._request_again(target)
        if status in (401, 403):
            problem = (
                "the user or the token is wrong, or the user may not read lists and subscribers"
            )
            raise Invalid("token", f"{problem} (status {status})")
        if status != 200:
            message = _message(body)
            raise Invalid("url", f"returned status {status}{message and f': {message}'}")
        if len(body) > _LARGEST_RESPONSE:
            raise Invalid("url", f"returned more than {_LARGEST_RESPONSE:,} bytes in one response")
        return body

    def _request_again(self, target: str) -> tuple[int, bytes]:
        """Return status and body; a request that fails is repeated. `Invalid`."""
        for attempt in range(1, _TRIES + 1):
            try:
                status, body = self._request(target)
            except ssl.SSLCertVerificationError as exc:
                raise Invalid("url", "has a certificate that is not valid") from exc
            except (OSError, http.client.HTTPException) as exc:
                if attempt == _TRIES:
                    why = str(exc) or type(exc).__name__
                    raise Invalid("url", f"does not respond: {why}") from exc
                continue
            if status < 500 or attempt == _TRIES:
                return status, body
        raise AssertionError("unreachable")

    def _request(self, target: str) -> tuple[int, bytes]:
        account = self._account
        connection = _PinnedConnection(self._looked_up(), account)
        try:
            headers = {"Authorization": account.authorization, "Accept": "application/json"}
            connection.request("GET", target, headers=headers)
            response = connection.getresponse()
            return response.status, response.read(_LARGEST_RESPONSE + 1)
        finally:
            connection.close()

    def _looked_up(self) -> str:
        """Return the address of the host, always the same one. `Invalid` if it is not allowed."""
        if self._address:
            return self._address
        account = self._account
        try:
            found = socket.getaddrinfo(account.host, account.port, proto=socket.IPPROTO_TCP)
        except (OSError, UnicodeError) as exc:
            raise Invalid("url", f"names the host {account.host}, which does not exist") from exc
        addresses = [str(each[4][0]) for each in found]
        if not addresses or not all(self._may_connect(each, account.port) for each in addresses):
            raise Invalid(
                "url",
                f"points to {account.host}:{account.port}, which is not a public address."
                " To import from a private one, use the command postroom subscriber"
                " import-listmonk",
            )
        self._address = addresses[0]
        return self._address


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to an IP address that was looked up before."""

    def __init__(self, address: str, account: ListmonkAccount) -> None:
        super().__init__(account.host, account.port, timeout=_SECONDS)
        self.default_port = 443 if account.is_https else 80
        self._pinned = address
        self._is_https = account.is_https

    def connect(self) -> None:
        self.sock = socket.create_connection((self._pinned, self.port), timeout=_SECONDS)
        if self._is_https:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host)


def _message(body: bytes) -> str:
    """Return what listmonk says about an error, if it does."""
    try:
        found = json.loads(body[:10_000])
    except ValueError:
        return ""
    text = found.get("message", "") if isinstance(found, dict) else ""
    return "".join(filter(str.isprintable, str(text)))[:200]
