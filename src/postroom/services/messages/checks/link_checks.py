"""Links of a message, tried before it is sent: HEAD, then GET if that fails in any way.

An author can write any link, so requests go only to public addresses. A host's addresses are looked
up once, all of them are judged, and the connection goes to one of these that responds, whatever
DNS says later;
each redirect starts over. Nothing of a response is kept but its status.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import msgspec

from postroom.errors import PostroomError
from postroom.mail.wire_addresses import ascii_domain

MOST_LINKS: Final = 100
"""Links of one message that are tried; the rest are not."""

_SECONDS: Final = 8.0
_SECONDS_FOR_HEAD: Final = 4.0
_SECONDS_PER_ADDRESS: Final = 1.5
"""To connect, unless it is the last one: many hosts have an IPv6 address that does not work."""
_MOST_ADDRESSES: Final = 3
_MOST_REDIRECTS: Final = 5
_LONGEST_LINE: Final = 16 * 1024
_MOST_HEADERS: Final = 100
_PORTS: Final = frozenset({80, 443, 8080, 8443})
_LOOKUPS_AT_ONCE: Final = 8
# All public addresses of IPv6 (RFC 4291 2.4). What is outside may carry an IPv4 address.
_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
_SAFE: Final = "/%:@!$&'()*+,;=~-._?"
# What servers reply to programs although people see the page.
_NOT_FOR_PROGRAMS: Final = frozenset({401, 403, 405, 406, 429, 999})

Resolve = Callable[[str, int], Awaitable[list[str]]]
MayConnect = Callable[[str, int], bool]


class LinkFault(PostroomError):
    """A link that does not work, and why."""


class _NoAnswer(LinkFault):
    """A server that did not respond to this request; it may respond to another one."""


class _Answer(msgspec.Struct, frozen=True):
    status: int
    location: str


def is_public(address: str, port: int) -> bool:
    """Return whether this is the address and port of a public website: the only ones to connect
    to."""
    return port in _PORTS and is_public_address(address)


def is_public_address(address: str) -> bool:
    """Return whether anyone on the internet could reach this IP address."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and (
        found not in _GLOBAL_UNICAST or found.sixtofour or found.teredo
    ):
        return False
    return found.is_global and not found.is_multicast


class LinkTrial:
    """Tries links.

    It looks up hosts in separate threads: a lookup that takes minutes delays only links.
    """

    def __init__(self, resolve: Resolve | None = None, may_connect: MayConnect = is_public) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS_AT_ONCE, "link-check")
        self._resolve = resolve or self._look_up
        self._may_connect = may_connect

    def close(self) -> None:
        """Abandon lookups that have not begun. No link can be tried afterwards."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def fault(self, link: str) -> str:
        """Return why a link does not work; "" if it does."""
        try:
            async with asyncio.timeout(_SECONDS):
                await self._follow(link)
        except LinkFault as exc:
            return str(exc)
        except TimeoutError:
            return f"does not respond within {_SECONDS:.0f} seconds"
        return ""

    async def _follow(self, link: str) -> None:
        """Raise `LinkFault` unless a page is at the end of the link."""
        url = link
        for _ in range(_MOST_REDIRECTS + 1):
            answer = await self._head(url)
            if answer is None or answer.status >= 400:
                answer = await self._request("GET", url)
            if not (300 <= answer.status < 400 and answer.location):
                break
            try:
                url = urljoin(url, answer.location)
            except ValueError as exc:
                raise LinkFault("redirects to an address that is not valid") from exc
        else:
            raise LinkFault("redirects too often")
        if answer.status >= 400 and answer.status not in _NOT_FOR_PROGRAMS:
            raise LinkFault(f"responds with status {answer.status}")

    async def _head(self, url: str) -> _Answer | None:
        """Return the answer to a HEAD request; None if there is none, as with some servers."""
        try:
            async with asyncio.timeout(_SECONDS_FOR_HEAD):
                return await self._request("HEAD", url)
        except (_NoAnswer, TimeoutError):
            return None

    async def _request(self, method: str, url: str) -> _Answer:
        parts, host, port = _parsed(url)
        try:
            addresses = await self._resolve(host, port)
        except (OSError, ValueError) as exc:  # `ValueError`: no host can have this name
            raise LinkFault(f"leads to {host}, which does not exist") from exc
        if not addresses or not all(self._may_connect(each, port) for each in addresses):
            raise LinkFault(f"leads to {host}, which is not a public address")
        context = await asyncio.to_thread(_tls) if parts.scheme == "https" else None
        reader, writer = await _connected(addresses[:_MOST_ADDRESSES], host, port, context)
        try:
            writer.write(_request_head(method, parts, host, port))
            await writer.drain()
            return await _read_answer(reader)
        except (OSError, ValueError, asyncio.IncompleteReadError) as exc:
            raise _NoAnswer(f"leads to {host}, which does not respond like a web server") from exc
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _look_up(self, host: str, port: int) -> list[str]:
        look_up = partial(socket.getaddrinfo, host, port, proto=socket.IPPROTO_TCP)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return list(dict.fromkeys(str(each[4][0]) for each in found))


async def _connected(
    addresses: list[str], host: str, port: int, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of these addresses that responds. `LinkFault`."""
    for number, address in enumerate(addresses, 1):
        is_last = number == len(addresses)
        try:
            async with asyncio.timeout(None if is_last else _SECONDS_PER_ADDRESS):
                return await asyncio.open_connection(
                    address,
                    port,
                    ssl=context,
                    server_hostname=host if context else None,
                    limit=_LONGEST_LINE,
                )
        except ssl.SSLCertVerificationError as exc:
            raise LinkFault(f"leads to {host}, whose certificate is not valid") from exc
        except (OSError, ValueError) as exc:  # `OSError`: also `TimeoutError`
            if is_last:
                raise _NoAnswer(f"leads to {host}, which does not respond") from exc
    raise _NoAnswer(f"leads to {host}, which has no address")


def _parsed(url: str) -> tuple[SplitResult, str, int]:
    """Return a URL with its host in ASCII and its port. `LinkFault`."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = parts.hostname or ""
        host = host if host.isascii() else ascii_domain(host)
    except (ValueError, PostroomError) as exc:
        raise LinkFault("is not a valid address") from exc
    if parts.scheme not in ("http", "https") or not host:
        raise LinkFault("does not lead to a website")
    return parts, host, port


def _request_head(method: str, parts: SplitResult, host: str, port: int) -> bytes:
    target = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        target += f"?{quote(parts.query, safe=_SAFE)}"
    shown = f"[{host}]" if ":" in host else host
    place = shown if port in (80, 443) else f"{shown}:{port}"
    return (
        f"{method} {target} HTTP/1.1\r\nHost: {place}\r\nUser-Agent: Postroom link check\r\n"
        "Accept: */*\r\nConnection: close\r\n\r\n"
    ).encode("ascii")


async def _read_answer(reader: asyncio.StreamReader) -> _Answer:
    """Read the status and the headers. `ValueError` if it is not HTTP."""
    words = (await reader.readline()).split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/"):
        raise ValueError("not an HTTP response")
    location = ""
    for _ in range(_MOST_HEADERS):
        line = await reader.readline()
        name, colon, value = line.partition(b":")
        if not colon:
            break
        if name.strip().lower() == b"location":
            location = value.strip().decode("latin-1")
    return _Answer(int(words[1]), location)


@cache
def _tls() -> ssl.SSLContext:
    """Return a context for all connections: reading the certificates takes a tenth of a second."""
    return ssl.create_default_context()


def web_links(links: Iterable[str], own_host: str) -> list[str]:
    """Return the links that lead to other websites, each once."""
    found: Mapping[str, None] = dict.fromkeys(
        each.strip() for each in links if each.strip().lower().startswith(("http://", "https://"))
    )
    return [each for each in found if _host(each) != own_host]


def _host(link: str) -> str:
    try:
        return urlsplit(link).hostname or ""
    except ValueError:
        return ""
