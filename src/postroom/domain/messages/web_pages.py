"""Messages on the web: in a browser for those who got one, and in the archive of its list."""

from __future__ import annotations

import secrets
from typing import Final
from urllib.parse import quote

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.refs import MessageRef

VIEW: Final = "/view"
ARCHIVE: Final = "/archive"


def new_web_key() -> str:
    """Return the secret of a message's link: references can be guessed."""
    return secrets.token_hex(12)


def web_url(base_url: str, ref: MessageRef, web_key: str) -> str:
    """Return the link to a message in a browser, the same for all of its recipients: the merge
    field `web_url`. It names no subscriber, and works for as long as the message is kept."""
    return f"{base_url.rstrip('/')}{VIEW}?ref={ref}&key={web_key}"


def known_web_url(base_url: str, message: Message) -> str:
    """Return where `web_url` leads now: until the message is sent, to its preview, for the
    team."""
    if is_sent(message):
        return web_url(base_url, message.ref, message.web_key)
    return preview_url(base_url, message.ref)


def preview_url(base_url: str, ref: str) -> str:
    """Return the link to the preview of a message; without a reference, to the start page."""
    base = base_url.rstrip("/")
    return f"{base}/messages/{ref}/preview" if ref else base


def archive_path(list_name: ListName, ref: MessageRef | str = "") -> str:
    """Return the path of a list's archive, or of a message in it."""
    path = f"{ARCHIVE}/{quote(list_name, safe='')}"
    return f"{path}/{ref}" if ref else path


def is_sent(message: Message) -> bool:
    """Return whether its recipients may know about it: sending has begun."""
    return message.queued_at is not None


def is_in_archive(message: Message) -> bool:
    """Return whether the archive of its list shows a message."""
    return (
        message.published
        and is_sent(message)
        and message.retry_of is None
        and message.status is not MessageStatus.CANCELLED
    )
