"""The outbox of the embedded transport: mails that would have been sent, to read and to follow."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response

from postroom.domain.errors import NoSuch
from postroom.mail.reading import read_mail
from postroom.services.users import Role
from postroom.web.routing import Page, explain
from postroom.web.sandbox import sandboxed
from postroom.web.visit import Endpoint, Visit
from postroom.wiring import find_outbox

_AT_ONCE = 50
_LINK = re.compile(r"https?://[^\s<>\"']+")


class Piece(msgspec.Struct, frozen=True):
    """A part of a mail's text; one that is a link leads to itself."""

    text: str
    is_link: bool


async def outbox(visit: Visit) -> Response:
    box = find_outbox(visit.context.settings)
    if box is None:
        transport = visit.context.settings.found["transport"].shown
        return visit.page("admin/outbox_unused.html", transport=transport)
    to, after = visit.parameter("to").strip()[:320], visit.parameter("after")[:300]
    found = await box.mails(limit=_AT_ONCE + 1, after=after, recipient=to)
    mails = found[:_AT_ONCE]
    further = ""
    if len(found) > _AT_ONCE:
        further = "/outbox?" + urlencode({"to": to, "after": found[_AT_ONCE - 1].name})
    first = "/outbox?" + urlencode({"to": to}) if after else ""
    return visit.page(
        "admin/outbox.html",
        mails=list(zip(mails, await box.subjects(mails), strict=True)),
        to=to,
        further=further,
        first=first,
    )


async def mail(visit: Visit) -> Response:
    name, content = await _content(visit)
    read = read_mail(content)
    return visit.page(
        "admin/outbox_mail.html",
        url=f"/outbox/{quote(name, safe='')}",
        mail=read,
        text=_pieces(read.text or ""),
        size=len(content),
    )


async def html(visit: Visit) -> Response:
    _, content = await _content(visit)
    part = read_mail(content).html
    if part is None:
        return explain(visit, 404, "No HTML", "This mail has a text part only.")
    return sandboxed(part)


async def download(visit: Visit) -> Response:
    name, content = await _content(visit)
    # The name was checked: it has neither quotes nor line ends; and ASCII it is.
    disposition = f'attachment; filename="{name}"'
    return Response(
        content, media_type="message/rfc822", headers={"Content-Disposition": disposition}
    )


async def _content(visit: Visit) -> tuple[str, bytes]:
    box, name = find_outbox(visit.context.settings), visit.parameter("name")
    if box is None:
        raise NoSuch("mail", name)
    return name, await box.read(name)


def _pieces(text: str) -> list[Piece]:
    """Text with its links taken apart, so that a template can show each its own way."""
    pieces: list[Piece] = []
    end = 0
    for found in _LINK.finditer(text):
        link = found[0].rstrip(".,;:!?)]}")
        pieces += [Piece(text[end : found.start()], False), Piece(link, True)]
        end = found.start() + len(link)
    return [*pieces, Piece(text[end:], False)]


def _page(path: str, endpoint: Endpoint) -> Page:
    return Page(path, endpoint, role=Role.VIEWER)


PAGES = (
    _page("/outbox", outbox),
    _page("/outbox/{name}", mail),
    _page("/outbox/{name}/html", html),
    _page("/outbox/{name}/download", download),
)
