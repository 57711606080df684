"""The outbox: emails that are kept instead of being sent."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from postroom.domain.errors import NoSuch
from postroom.mail.mail_reader import ReadMail, read_mail
from postroom.services.accounts.users import Role
from postroom.services.queues.queue_access import hide_guids
from postroom.transport.outbox_folder import OutboxFolder, OutboxMail
from postroom.web.rendering.sandbox import sandboxed
from postroom.web.rendering.sorting import ROWS_SHOWN, Sortable, SortColumn, Sorting
from postroom.web.rendering.templating import counted
from postroom.web.requests.flash import Undo
from postroom.web.requests.views import View, error_page
from postroom.web.requests.visit import Visit
from postroom.wiring import find_outbox

_INDEX: Final = Sortable[OutboxMail](
    # Not by subject: that is in the file, and too many would have to be opened.
    {
        "to": SortColumn("To", lambda each: each.recipient),
        "time": SortColumn("Time", lambda each: each.date, largest_first=True),
    },
    key_order="-time",
    order_label="Newest first",
    advice="Search for an address or a subject.",
)
_LONGEST_SOURCE: Final = 100_000  # bytes; the rest is in the download
_LONGEST_SEARCH: Final = 320
_LONGEST_ADDRESS: Final = 2000  # of the page that a deletion returns to
_MOST_DELETED: Final = 500
_INDEX_URL: Final = "/outbox"
_LINK = re.compile(r"https?://[^\s<>\"']+")


class TextPart(msgspec.Struct, frozen=True):
    """A part of an email's text."""

    text: str
    is_link: bool


async def outbox(visit: Visit) -> Response:
    box = find_outbox(visit.context.settings)
    if box is None:
        transport = visit.context.settings.found["transport"].shown
        return visit.render("admin/messages/outbox_unused.html", transport=transport)
    query, after = visit.parameter("q").strip()[:_LONGEST_SEARCH], visit.parameter("after")[:300]
    sorting = Sorting(visit, _INDEX, {"q": query})
    mails = None
    if not sorting.is_key_order:
        found = await box.search(query, limit=sorting.max_rows)
        mails = sorting.select(None if found.next else found.mails)
    if mails is None:
        found = await box.search(query, limit=ROWS_SHOWN, after=after)
        mails = found.mails
        sorting.continue_after(found.next)
    return visit.render(
        "admin/messages/outbox.html",
        mails=list(zip(mails, await box.subjects(mails), strict=True)),
        query=query,
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
        name=name,
        url=f"{_INDEX_URL}/{quote(name, safe='')}",
        mail=read,
        text=_pieces(read.text or ""),
        source=hide_guids(source) if is_hidden else source,
        size=len(content),
        sent_at=_sent_at(read),
        is_hidden=is_hidden,
    )


async def html(visit: Visit) -> Response:
    _, content = await _content(visit)
    part = _read(visit, content).html
    if part is None:
        return error_page(visit, 404, "No HTML", "This email has no HTML part.")
    return sandboxed(part, base_url=visit.context.base_url)


async def download(visit: Visit) -> Response:
    """Download the email unchanged, with its personal links: for administrators."""
    name, content = await _content(visit)
    # The name was checked: ASCII without quotes or line ends.
    disposition = f'attachment; filename="{name}"'
    return Response(
        content, media_type="message/rfc822", headers={"Content-Disposition": disposition}
    )


async def delete(visit: Visit) -> Response:
    """Delete the selected emails; the toast can restore them."""
    form = await visit.form()
    names = [each for each in form.getlist("name") if isinstance(each, str)][:_MOST_DELETED]
    back = await _way_back(visit)
    if not names:
        return visit.redirect(back, "No emails selected.")
    count, batch = await _box(visit).delete(names)
    await visit.audit("deleted emails from the outbox", counted(count, "email", "emails"))
    if not count:
        return visit.redirect(back, "Already deleted.")
    undo = Undo(f"{_INDEX_URL}/restore", (("batch", batch), ("back", back)))
    return visit.redirect(back, f"{counted(count, 'email', 'emails')} deleted.", undo)


async def restore(visit: Visit) -> Response:
    count = await _box(visit).restore(await visit.text("batch"))
    await visit.audit("restored emails of the outbox", counted(count, "email", "emails"))
    restored = f"{counted(count, 'email', 'emails')} restored."
    flash = restored if count else "It is too late to restore these emails."
    return visit.redirect(await _way_back(visit), flash)


async def delete_all(visit: Visit) -> Response:
    box = _box(visit)
    if visit.request.method == "GET":
        return visit.render(
            "admin/confirm.html",
            title="Delete all emails in the outbox?",
            points=[
                "They cannot be restored.",
                "Messages keep their outcomes: only the copies shown here are deleted.",
            ],
            button="Delete all emails",
            fields={},
            back=_INDEX_URL,
        )
    count = counted(await box.delete_all(), "email", "emails")
    await visit.audit("deleted all emails from the outbox", count)
    return visit.redirect(_INDEX_URL, f"{count} deleted.")


async def _way_back(visit: Visit) -> str:
    """Return the page that the form was sent from, if it is one of the outbox."""
    back = await visit.text("back")
    is_known = back == _INDEX_URL or back.startswith(f"{_INDEX_URL}?")
    return back if is_known and len(back) <= _LONGEST_ADDRESS else _INDEX_URL


def _box(visit: Visit) -> OutboxFolder:
    box = find_outbox(visit.context.settings)
    if box is None:
        raise NoSuch("folder", "outbox")
    return box


async def _content(visit: Visit) -> tuple[str, bytes]:
    name = visit.parameter("name")
    return name, await _box(visit).read(name)


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


def _sent_at(mail: ReadMail) -> datetime | None:
    """Return the time in the Date header, if it has one."""
    dates = (value for name, value in mail.headers if name.lower() == "date")
    try:
        moment = parsedate_to_datetime(next(dates, ""))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _pieces(text: str) -> list[TextPart]:
    """Split a text into links and the text between them."""
    pieces: list[TextPart] = []
    end = 0
    for found in _LINK.finditer(text):
        link = found[0].rstrip(".,;:!?)]}")
        pieces += [TextPart(text[end : found.start()], False), TextPart(link, True)]
        end = found.start() + len(link)
    return [*pieces, TextPart(text[end:], False)]


VIEWS = (
    View("/outbox", outbox, role=Role.VIEWER),
    View("/outbox/delete", delete, role=Role.EDITOR, methods=("POST",)),
    View("/outbox/restore", restore, role=Role.EDITOR, methods=("POST",)),
    View("/outbox/delete-all", delete_all, role=Role.EDITOR, methods=("GET", "POST")),
    View("/outbox/{name}", mail, role=Role.VIEWER),
    View("/outbox/{name}/html", html, role=Role.VIEWER),
    View("/outbox/{name}/download", download, role=Role.ADMINISTRATOR),
)
