"""The feed of a list's archive: Atom (RFC 4287)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree

from postroom.services.messages.published_messages import PublishedMessage
from postroom.web.public.visitor import printable

_NAMESPACE: Final = "http://www.w3.org/2005/Atom"
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def atom_feed(title: str, place: str, messages: Sequence[PublishedMessage]) -> bytes:
    """Return the feed of the archive at this URL. The messages are the newest first."""
    feed = ElementTree.Element("feed", {"xmlns": _NAMESPACE})
    _text(feed, "id", place)
    _text(feed, "title", title)
    _text(feed, "updated", _time(messages[0].sent_at if messages else _LONG_AGO))
    _text(ElementTree.SubElement(feed, "author"), "name", title)
    ElementTree.SubElement(feed, "link", {"href": place, "rel": "alternate", "type": "text/html"})
    ElementTree.SubElement(feed, "link", {"href": f"{place}/feed.xml", "rel": "self"})
    for each in messages:
        url = f"{place}/{each.ref}"
        entry = ElementTree.SubElement(feed, "entry")
        _text(entry, "id", url)
        _text(entry, "title", each.subject)
        _text(entry, "updated", _time(each.sent_at))
        _text(entry, "published", _time(each.sent_at))
        ElementTree.SubElement(entry, "link", {"href": url, "rel": "alternate"})
        _text(entry, "summary", each.preheader or each.subject)
    content: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return content


def _text(parent: ElementTree.Element, name: str, text: str) -> None:
    # XML has no place for control characters.
    ElementTree.SubElement(parent, name).text = printable(text)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
