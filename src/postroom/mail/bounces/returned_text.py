"""The readable text of an email and its headers, without the copy of the email that it returns."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from email import message_from_string
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses

MOST_TEXT = 64 * 1024
"""Characters of a part that are looked at: what a mail system writes itself is short."""

_LONGEST_HEADER = 2000

# Where systems that send no MIME parts begin the copy of the original.
_COPY = re.compile(
    r"""^[ \t]*(?:>[ ]?)?(?:
      -{2,}[ ]*(?:below[ ]this[ ]line|this[ ]is[ ]a[ ]copy|included[ ]is[ ]a[ ]copy
        |(?:the[ ])?(?:header|text)s?[ ]of[ ](?:the|your)|(?:your[ ]|start[ ]of[ ])?original
        |unsent[ ]message|enclosed[ ]is|message[ ](?:header|text|follows)|returned[ ]message
        |body[ ]of|forwarded)
    | (?:your[ ])?(?:original[ ])?message[ ](?:headers?[ ])?(?:follows|reads|below)
    | original[ ]message[ ](?:header|follows)
    | the[ ]original[ ]message[ ](?:follows|was[ ]received.*\n.*\n\s*from.*\n.*received:)
    | received:[ ](?:from|by)[ ]
    | return-path:[ ]*<
    )""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_TEXTS = ("text", "multipart")
_TO = re.compile(r"^[ \t>]*to:[ \t]*(.{1,1000})", re.IGNORECASE | re.MULTILINE)
_UNSEEN = re.compile(r"<(/?)(?:style|script|head)\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[a-z/!][^<>]*>", re.IGNORECASE)
_BETWEEN = re.compile(
    r"\n[ \t>]*\n"
    r"""|\n(?=[ \t>]*[<"]?[^\s<>@"]{1,64}@[^\s<>@:"]{1,255}[>"]?(?::[ \t]|:?[ \t]*(?:\n|$)))"""
)
"""Between paragraphs: a blank line, or a line that begins with a recipient and what is said about
them (OpenSMTPD, GMX)."""


def text_of(part: Message) -> str:
    """Return the text of one part, decoded as well as possible."""
    payload = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else str(part.get_payload()).encode()
    charset = part.get_content_charset() or "utf-8"
    try:
        text = raw.decode(charset, "replace")
    except (LookupError, ValueError):
        text = raw.decode("latin-1")
    text = text.replace("\r\n", "\n").replace("\r", "\n")[:MOST_TEXT]
    if part.get_content_subtype() == "html":
        text = html.unescape(_TAG.sub("\n", _seen(text))).replace("\xa0", " ")
    return text


def _seen(text: str) -> str:
    """Return HTML without style sheets, scripts and heads."""
    seen, start, is_seen = [], 0, True
    for tag in _UNSEEN.finditer(text):
        if is_seen:
            seen.append(text[start : tag.start()])
        start, is_seen = tag.end(), bool(tag[1])
    return "\n".join((*seen, text[start:]))


def returns_email(message: Message) -> bool:
    """Return whether the text of an email contains a copy of another one, after some other text."""
    for part in _own_parts(message):
        if part.get_content_maintype() in _TEXTS:
            text = text_of(part)
            found = _COPY.search(text)
            if found is not None and text[: found.start()].strip():
                return True
    return False


def returned_recipients(message: Message) -> list[str]:
    """Return the addresses to which the email went that is returned, as its own header names them:
    a report often names the mailbox that it was forwarded to."""
    fields = list[str]()
    for part in message.walk():
        kind = part.get_content_type()
        if kind == "message/rfc822" and part.is_multipart():
            returned = part.get_payload(0)
            fields.append(header_text(returned, "to") if isinstance(returned, Message) else "")
        elif kind in ("text/rfc822-headers", "message/rfc822-headers"):
            fields.append(header_text(message_from_string(text_of(part)), "to"))
        elif kind == "text/plain":
            text = text_of(part)
            if (copy := _COPY.search(text)) is not None:
                found = _TO.search(text, copy.start())
                fields.append(found[1] if found else "")
    return [address for _, address in getaddresses(filter(None, fields)) if "@" in address]


def own_text(message: Message) -> str:
    """Return what the mail system itself wrote, up to its copy of the original."""
    texts: dict[str, list[str]] = {"plain": [], "html": []}
    for part in _own_parts(message):
        if part.get_content_maintype() in _TEXTS:
            kind = "html" if part.get_content_subtype() == "html" else "plain"
            texts[kind].append(text_of(part))
    text = "\n\n".join(texts["plain"] or texts["html"])[:MOST_TEXT]
    found = _COPY.search(text)
    # At the very beginning it is not the copy, but all that there is.
    return text[: found.start()] if found and text[: found.start()].strip() else text


def _own_parts(message: Message) -> Iterator[Message]:
    """Yield the parts of an email, without those of an email within it. A multipart of which no
    part was found, because its boundary is missing, counts as a text."""
    if message.get_content_type() in ("message/rfc822", "text/rfc822-headers"):
        return
    if not message.is_multipart():
        yield message
        return
    for part in message.get_payload():
        if isinstance(part, Message):
            yield from _own_parts(part)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each on one line."""
    found = (" ".join(each.split()) for each in _BETWEEN.split(text))
    return [each for each in found if each]


def header_text(message: Message, name: str) -> str:
    """Return a header on one line, decoded as well as possible; empty if there is none."""
    raw = next((value for each, value in message.raw_items() if each.lower() == name), None)
    if raw is None:
        return ""
    # Some systems write UTF-8 without saying so.
    text = str(raw).encode("utf-8", "surrogateescape").decode("utf-8", "replace")[:_LONGEST_HEADER]
    try:
        return " ".join(str(make_header(decode_header(text))).split())
    except (LookupError, ValueError, MessageError):
        return " ".join(text.split())
