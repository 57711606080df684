"""The outbox: emails that are kept instead of being sent."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from postroom.domain.errors import NoSuch
from postroom.mail.mail_reader import ReadMail, read_mail
from postroom.services.accounts.users import Role
from postroom.services.queues.queue_access import hide_guids
from postroom.transport.outbox_transport import OutboxMail
from postroom.web.rendering.sandbox import sandboxed
from postroom.web.rendering.sorting import ROWS_SHOWN, Sortable, SortColumn, Sorting
from postroom.web.requests.views import View, error_page
from postroom.web.requests.visit import Endpoint, Visit
from postroom.wiring import find_outbox

_INDEX: Final = Sortable[OutboxMail](
    # Not by subject: that is in the file, and too many would have to be opened.
    {
        "to": SortColumn("To", lambda each: each.recipient),
        "time": SortColumn("Time", lambda each: each.date, largest_first=True),
    },
    key_order="-time",
    order_label="Newest first",
    advice="Filter by recipient.",
)
_LONGEST_SOURCE: Final = 100_000  # bytes; the rest is in the download
_LINK = re.compile(r"https?://[^\s<>\"']+")


class Piece(msgspec.Struct, frozen=True):
    """A part of an email's text."""

    text: str
    is_link: bool


async def outbox(visit: Visit) -> Response:
    box = find_outbox(visit.context.settings)
    if box is None:
        transport = visit.context.settings.found["transport"].shown
        return visit.render("admin/messages/outbox_unused.html", transport=transport)
    to, after = visit.parameter("to").strip()[:320], visit.parameter("after")[:300]
    sorting = Sorting(visit, _INDEX, {"to": to})
    mails = None
    if not sorting.is_key_order:
        found = await box.mails(limit=sorting.max_rows + 1, recipient=to)
        mails = sorting.select(None if len(found) > sorting.max_rows else found)
    if mails is None:
        found = await box.mails(limit=ROWS_SHOWN + 1, after=after, recipient=to)
        mails = found[:ROWS_SHOWN]
        sorting.continue_after(mails[-1].name if len(found) > ROWS_SHOWN else None)
    return visit.render(
        "admin/messages/outbox.html",
        mails=list(zip(mails, await box.subjects(mails), strict=True)),
        to=to,
        sorting=sorting,
    )


async def mail(visit: Visit) -> Response:
    name, content = await _content(visit)
    read = _read(visit, content)
    source = content[:_LONGEST_SOURCE].decode(errors="replace")
    is_hidden = not visit.may(Role.ADMINISTRATOR)
    template = "outbox_mail_parts.html" if visit.is_partial else "outbox_mail.html"
    return visit.render(
        f"admin/messages/{template}",
        url=f"/outbox/{quote(name, safe='')}",
        mail=read,
        text=_pieces(read.text or ""),
        source=hide_guids(source) if is_hidden else source,
        size=len(content),
        is_hidden=is_hidden,
    )


async def html(visit: Visit) -> Response:
    _, content = await _content(visit)
    part = _read(visit, content).html
    if part is None:
        return error_page(visit, 404, "No HTML", "This email has no HTML part.")
    return sandboxed(part)


async def download(visit: Visit) -> Response:
    """Download the email unchanged, with its personal links: for administrators."""
    name, content = await _content(visit)
    # The name was checked: ASCII without quotes or line ends.
    disposition = f'attachment; filename="{name}"'
    return Response(
        content, media_type="message/rfc822", headers={"Content-Disposition": disposition}
    )


async def _content(visit: Visit) -> tuple[str, bytes]:
    box, name = find_outbox(visit.context.settings), visit.parameter("name")
    if box is None:
        raise NoSuch("email", name)
    return name, await box.read(name)


def _read(visit: Visit, content: bytes) -> ReadMail:
    """Parse the email as this user may see it: its links can confirm and unsubscribe others."""
    mail = read_mail(content)
    if visit.may(Role.ADMINISTRATOR):
        return mail
    return ReadMail(
        headers=[(name, hide_guids(value)) for name, value in mail.headers],
        text=None if mail.text is None else hide_guids(mail.text),
        html=None if mail.html is None else hide_guids(mail.html),
    )


def _pieces(text: str) -> list[Piece]:
    """Split a text into links and the text between them."""
    pieces: list[Piece] = []
    end = 0
    for found in _LINK.finditer(text):
        link = found[0].rstrip(".,;:!?)]}")
        pieces += [Piece(text[end : found.start()], False), Piece(link, True)]
        end = found.start() + len(link)
    return [*pieces, Piece(text[end:], False)]


def _page(path: str, endpoint: Endpoint, role: Role = Role.VIEWER) -> View:
    return View(path, endpoint, role=role)


VIEWS = (
    _page("/outbox", outbox),
    _page("/outbox/{name}", mail),
    _page("/outbox/{name}/html", html),
    _page("/outbox/{name}/download", download, Role.ADMINISTRATOR),
)
