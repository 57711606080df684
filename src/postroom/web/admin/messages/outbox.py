"""The outbox of the embedded transport: mails that would have been sent, to read and to follow."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from postroom.domain.errors import NoSuch
from postroom.mail.reading import ReadMail, read_mail
from postroom.services.accounts.users import Role
from postroom.services.audience.guid_hiding import hide_guids
from postroom.transport.outbox import OutboxMail
from postroom.web.rendering.sandbox import sandboxed
from postroom.web.rendering.sorting import A_PAGE, Column, Sortable, Sorting
from postroom.web.requests.routing import Page, explain
from postroom.web.requests.visit import Endpoint, Visit
from postroom.wiring import find_outbox

_INDEX: Final = Sortable[OutboxMail](
    # A mail's subject is in its file: too many would have to be opened.
    {
        "to": Column("To", lambda each: each.recipient),
        "when": Column("When", lambda each: each.date, largest_first=True),
    },
    natural="-when",
    in_words="Newest first",
    advice="Show those to one address.",
)
_LINK = re.compile(r"https?://[^\s<>\"']+")


class Piece(msgspec.Struct, frozen=True):
    """A part of a mail's text; one that is a link leads to itself."""

    text: str
    is_link: bool


async def outbox(visit: Visit) -> Response:
    box = find_outbox(visit.context.settings)
    if box is None:
        transport = visit.context.settings.found["transport"].shown
        return visit.page("admin/messages/outbox_unused.html", transport=transport)
    to, after = visit.parameter("to").strip()[:320], visit.parameter("after")[:300]
    sorting = Sorting(visit, _INDEX, {"to": to})
    mails = None
    if not sorting.is_natural:
        found = await box.mails(limit=sorting.most + 1, recipient=to)
        mails = sorting.page_of(None if len(found) > sorting.most else found)
    if mails is None:
        found = await box.mails(limit=A_PAGE + 1, after=after, recipient=to)
        mails = found[:A_PAGE]
        sorting.in_key_order(mails[-1].name if len(found) > A_PAGE else None)
    return visit.page(
        "admin/messages/outbox.html",
        mails=list(zip(mails, await box.subjects(mails), strict=True)),
        to=to,
        sorting=sorting,
    )


async def mail(visit: Visit) -> Response:
    name, content = await _content(visit)
    read = _read(visit, content)
    return visit.page(
        "admin/messages/outbox_mail.html",
        url=f"/outbox/{quote(name, safe='')}",
        mail=read,
        text=_pieces(read.text or ""),
        size=len(content),
        is_hidden=not visit.may(Role.ADMINISTRATOR),
    )


async def html(visit: Visit) -> Response:
    _, content = await _content(visit)
    part = _read(visit, content).html
    if part is None:
        return explain(visit, 404, "No HTML", "This mail has a text part only.")
    return sandboxed(part)


async def download(visit: Visit) -> Response:
    """The mail as it is, with its subscriber's links: for administrators."""
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


def _read(visit: Visit, content: bytes) -> ReadMail:
    """The mail as this user may see it: with its links, one can confirm and unsubscribe others."""
    mail = read_mail(content)
    if visit.may(Role.ADMINISTRATOR):
        return mail
    return ReadMail(
        headers=[(name, hide_guids(value)) for name, value in mail.headers],
        text=None if mail.text is None else hide_guids(mail.text),
        html=None if mail.html is None else hide_guids(mail.html),
    )


def _pieces(text: str) -> list[Piece]:
    """Text with its links taken apart, so that a template can show each its own way."""
    pieces: list[Piece] = []
    end = 0
    for found in _LINK.finditer(text):
        link = found[0].rstrip(".,;:!?)]}")
        pieces += [Piece(text[end : found.start()], False), Piece(link, True)]
        end = found.start() + len(link)
    return [*pieces, Piece(text[end:], False)]


def _page(path: str, endpoint: Endpoint, role: Role = Role.VIEWER) -> Page:
    return Page(path, endpoint, role=role)


PAGES = (
    _page("/outbox", outbox),
    _page("/outbox/{name}", mail),
    _page("/outbox/{name}/html", html),
    _page("/outbox/{name}/download", download, Role.ADMINISTRATOR),
)
