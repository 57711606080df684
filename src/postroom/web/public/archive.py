"""Messages on the web: the archive of a list with its feed, and single messages in a browser.

A message is shown in a frame. Its HTML may be hostile, so the frame's own policy lets nothing in it
run, send forms or reach our pages (`sandbox.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode
from xml.etree import ElementTree

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.lists import MailingList
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.messages.messages import Message
from postroom.domain.messages.web_pages import VIEW, archive_path, is_in_archive
from postroom.services.messages.published_messages import (
    PublishedMessage,
    shown_preheader,
    shown_subject,
)
from postroom.web.public.visitor import Visitor, printable, public, shown_day
from postroom.web.rendering.sandbox import sandboxed
from postroom.web.requests.views import View

_LONGEST_SEARCH: Final = 100
_MOST_FOUND: Final = 200
_MOST_IN_FEED: Final = 30
_MINUTES: Final = "public, max-age=300"
_ATOM: Final = "http://www.w3.org/2005/Atom"
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Neighbours(msgspec.Struct, frozen=True):
    """The messages before and after one in the archive."""

    older: PublishedMessage | None = None
    newer: PublishedMessage | None = None


_ALONE: Final = Neighbours()


async def archive(visitor: Visitor) -> Response:
    """Show the messages of a year, or those that a search finds."""
    found = await _list_and_messages(visitor)
    if found is None:
        return _no_archive(visitor)
    mailing_list, messages = found
    years = sorted({each.sent_at.year for each in messages}, reverse=True)
    search = printable(visitor.parameter("q"))[:_LONGEST_SEARCH].strip()
    if search:
        year, shown = 0, _matching(messages, search)[:_MOST_FOUND]
    else:
        year = _year(visitor.parameter("year"), years)
        shown = [each for each in messages if each.sent_at.year == year]
    return _answered(
        visitor,
        mailing_list,
        visitor.render(
            "archive.html",
            mailing_list=mailing_list,
            messages=shown,
            years=years,
            year=year,
            search=search,
            path=archive_path(mailing_list.name),
            feed=_url(visitor, f"{archive_path(mailing_list.name)}/feed.xml"),
            canonical=_url(visitor, archive_path(mailing_list.name)),
            day=shown_day,
        ),
    )


async def feed(visitor: Visitor) -> Response:
    found = await _list_and_messages(visitor)
    if found is None:
        return _no_archive(visitor)
    mailing_list, messages = found
    place = _url(visitor, archive_path(mailing_list.name))
    content = _atom_feed(mailing_list.description, place, messages[:_MOST_IN_FEED])
    response = Response(content, media_type="application/atom+xml; charset=utf-8")
    response.headers["Cache-Control"] = _MINUTES
    return _answered(visitor, mailing_list, response)


async def message_in_archive(visitor: Visitor) -> Response:
    found = await _archived(visitor)
    if found is None:
        return _no_message(visitor)
    mailing_list, message = found
    published = await visitor.services.published.of(mailing_list.name)
    path = archive_path(mailing_list.name, message.ref)
    return _message_page(
        visitor, mailing_list, message, path, f"{path}/html", _neighbours(published, message)
    )


async def frame_in_archive(visitor: Visitor) -> Response:
    found = await _archived(visitor)
    return await _frame(visitor, found, {"Cache-Control": _MINUTES})


async def view(visitor: Visitor) -> Response:
    """Show the message that a link in an email leads to."""
    found = await _linked(visitor)
    if found is None:
        return _no_message(visitor)
    query = urlencode({"ref": found[1].ref, "key": found[1].web_key})
    return _message_page(visitor, *found, f"{VIEW}?{query}", f"{VIEW}/html?{query}")


async def frame_in_view(visitor: Visitor) -> Response:
    return await _frame(visitor, await _linked(visitor), {"X-Robots-Tag": "noindex"})


def _message_page(
    visitor: Visitor,
    mailing_list: MailingList,
    message: Message,
    path: str,
    frame: str,
    neighbours: Neighbours = _ALONE,
) -> Response:
    in_archive = is_in_archive(message)
    visitor.default_language_of(mailing_list)
    response = visitor.render(
        "web_message.html",
        mailing_list=mailing_list,
        subject=shown_subject(message),
        preheader=shown_preheader(message),
        sent_at=message.due_at,
        neighbours=neighbours,
        frame=frame,
        in_archive=in_archive,
        canonical=_url(
            visitor, archive_path(message.list_name, message.ref) if in_archive else path
        ),
        home=archive_path(message.list_name) if in_archive else "",
        url=lambda given: _url(visitor, given),
        archive_path=archive_path,
        day=shown_day,
    )
    return _answered(visitor, mailing_list, response) if in_archive else response


async def _frame(
    visitor: Visitor, found: tuple[MailingList, Message] | None, headers: Mapping[str, str]
) -> Response:
    if found is None:
        return _no_message(visitor)
    mailing_list, message = found
    try:
        document = await visitor.services.publishing.document(message, mailing_list)
    except NoSuch:
        return _no_message(visitor)
    base_url = visitor.visit.context.base_url
    response = sandboxed(document, base_url=base_url, with_pictures=True, headers=headers)
    return _answered(visitor, mailing_list, response)


async def _list_and_messages(
    visitor: Visitor,
) -> tuple[MailingList, list[PublishedMessage]] | None:
    """Return a list and what it has published. A list that is not public has an archive only if
    something is in it: nothing else reveals that there is such a list."""
    mailing_list = await _list(visitor)
    if mailing_list is None:
        return None
    messages = await visitor.services.published.of(mailing_list.name)
    if not messages and not mailing_list.public:
        return None
    visitor.default_language_of(mailing_list)
    return mailing_list, messages


async def _list(visitor: Visitor) -> MailingList | None:
    try:
        return await visitor.services.lists.get(visitor.visit.parameter("list"))
    except (Invalid, NoSuch):
        return None


async def _archived(visitor: Visitor) -> tuple[MailingList, Message] | None:
    mailing_list = await _list(visitor)
    if mailing_list is None:
        return None
    try:
        ref = visitor.visit.parameter("ref")
        return mailing_list, await visitor.services.publishing.in_archive(mailing_list.name, ref)
    except (Invalid, NoSuch):
        return None


async def _linked(visitor: Visitor) -> tuple[MailingList, Message] | None:
    ref, key = visitor.parameter("ref"), visitor.parameter("key")
    try:
        message = await visitor.services.publishing.by_key(ref, key)
        return await visitor.services.lists.get(message.list_name), message
    except (Invalid, NoSuch):
        return None


def _neighbours(published: Sequence[PublishedMessage], message: Message) -> Neighbours:
    refs = [each.ref for each in published]
    if message.ref not in refs:
        return Neighbours()
    at = refs.index(message.ref)
    older = published[at + 1] if at + 1 < len(published) else None
    return Neighbours(older, published[at - 1] if at else None)


def _matching(messages: Sequence[PublishedMessage], search: str) -> list[PublishedMessage]:
    """Return the messages whose subject and preheader contain each word."""
    words = search.casefold().split()
    texts = ((each, f"{each.subject} {each.preheader}".casefold()) for each in messages)
    return [each for each, text in texts if all(word in text for word in words)]


def _year(asked: str, years: Sequence[int]) -> int:
    """Return the year to show: the newest, unless another one is asked for."""
    by_text = {str(each): each for each in years}
    return by_text.get(asked, years[0] if years else 0)


def _url(visitor: Visitor, path: str) -> str:
    return f"{visitor.visit.context.base_url.rstrip('/')}{path}"


def _answered(visitor: Visitor, mailing_list: MailingList, response: Response) -> Response:
    if mailing_list.noindex:
        response.headers["X-Robots-Tag"] = "noindex"
    return response


def _no_archive(visitor: Visitor) -> Response:
    _ = visitor.gettext
    return visitor.message(
        _("List not found"),
        _("It may have been removed, or the link is incomplete."),
        status=404,
    )


def _no_message(visitor: Visitor) -> Response:
    _ = visitor.gettext
    return visitor.message(
        _("This message is not available"),
        _("It may have been removed, or the link is incomplete."),
        status=404,
    )


def _atom_feed(title: str, place: str, messages: Sequence[PublishedMessage]) -> bytes:
    """Return the archive at this URL as Atom (RFC 4287). The messages are the newest first."""
    feed = ElementTree.Element("feed", {"xmlns": _ATOM})
    _add_text(feed, "id", place)
    _add_text(feed, "title", title)
    _add_text(feed, "updated", _time(messages[0].sent_at if messages else _LONG_AGO))
    _add_text(ElementTree.SubElement(feed, "author"), "name", title)
    ElementTree.SubElement(feed, "link", {"href": place, "rel": "alternate", "type": "text/html"})
    ElementTree.SubElement(feed, "link", {"href": f"{place}/feed.xml", "rel": "self"})
    for each in messages:
        url = f"{place}/{each.ref}"
        entry = ElementTree.SubElement(feed, "entry")
        _add_text(entry, "id", url)
        _add_text(entry, "title", each.subject)
        _add_text(entry, "updated", _time(each.sent_at))
        _add_text(entry, "published", _time(each.sent_at))
        ElementTree.SubElement(entry, "link", {"href": url, "rel": "alternate"})
        _add_text(entry, "summary", each.preheader or each.subject)
    content: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return content


def _add_text(parent: ElementTree.Element, name: str, text: str) -> None:
    # XML has no place for control characters.
    ElementTree.SubElement(parent, name).text = printable(text)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


VIEWS = tuple(
    View(path, public(endpoint), is_public=True, protected=False)
    for path, endpoint in (
        ("/archive/{list}", archive),
        ("/archive/{list}/feed.xml", feed),
        ("/archive/{list}/{ref}", message_in_archive),
        ("/archive/{list}/{ref}/html", frame_in_archive),
        (VIEW, view),
        (f"{VIEW}/html", frame_in_view),
    )
)
