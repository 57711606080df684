"""A message made ready for all of its recipients.

The unsubscribe link is in every body: where the author put `{{ unsubscribe_url }}`, or else in a
footer that is added. So is the list's postal address, if it has one: always in that footer.
"""

from __future__ import annotations

import hashlib
import html as html_
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import ListName
from postroom.domain.errors import Invalid
from postroom.domain.languages import LANGUAGES
from postroom.domain.messages.refs import MessageRef
from postroom.mail import headers
from postroom.mail.assembly import Sender, assembled, sender_of
from postroom.mail.bodies import clean_body
from postroom.mail.fields import FIELD, Field, split_fields
from postroom.mail.html.documents import declare_utf8, place_of_footer, visible_spans
from postroom.mail.links import Link, host_name, unsubscribe_link
from postroom.mail.mailing import Mailing
from postroom.mail.parts import Part
from postroom.mail.quoted import Pieces, Slot
from postroom.mail.texts import Texts, texts_in

_LINK_FIELD: Final = f"{{{{ {Field.UNSUBSCRIBE_URL} }}}}"
_LIST_FIELD: Final = f"{{{{ {Field.LIST_DESCRIPTION} }}}}"
_HTML_FOOTER: Final = """
<div lang="{language}" style="margin:32px 0 0;padding:16px 0;border-top:1px solid #d8d8d8;\
color:#6b6b6b;font:13px/1.5 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;\
text-align:center">
{lines}
</div>
"""
_HTML_LEAVE: Final = """{why}<br>
<a href="{link}" style="color:#6b6b6b;text-decoration:underline">{unsubscribe}</a>"""
_TEXT_FOOTER: Final = "\n--------\n{lines}\n"
_TEXT_LEAVE: Final = "{why}\n{unsubscribe}: {link}"

_DOT_ATOM = re.compile(r"[\w-]+(?:\.[\w-]+)*", re.ASCII)
_LONGEST_LIST_ID = 255  # RFC 2919 3


def compile_mailing(
    *,
    ref: MessageRef,
    subject: str,
    html: str | None,
    text: str | None,
    list_name: ListName,
    description: str,
    from_address: Address,
    base_url: str,
    date: datetime,
    language: str = LANGUAGES[0],
    postal_address: str = "",
) -> Mailing:
    """Build everything that is the same for all recipients, once. A blank body counts as none."""
    sender = sender_of(list_name, description, from_address)
    link = unsubscribe_link(base_url, sender.list_name)
    texts = texts_in(language)
    parts = []
    if text and text.strip():
        parts.append(_text_part(text, sender, link, texts, postal_address))
    if html and html.strip():
        parts.append(_html_part(html, sender, link, texts, postal_address))
    if not parts:
        raise Invalid("body", "a message needs an HTML or a text body")
    return assembled(
        sender,
        subject=_subject(subject, sender),
        date=date,
        key=ref,
        scope=sender.list_name,
        more_headers=_list_headers(sender, base_url, link),
        parts=parts,
    )


def _subject(subject: str, sender: Sender) -> list[str | Slot]:
    replaced: dict[Field, list[str | Slot]] = {
        Field.EMAIL: [Slot.EMAIL_IN_SUBJECT],
        Field.LIST_DESCRIPTION: [sender.description],
    }
    return _filled(split_fields("subject", subject.strip()), replaced)


def _why(texts: Texts, sender: Sender) -> str:
    """Why somebody gets this. A description that ends with a full stop (`e. V.`) needs no other."""
    ends_by_itself = sender.description.endswith(".")
    why = texts.why.replace("{list}.", "{list}") if ends_by_itself else texts.why
    return why.format(list=_LIST_FIELD)


def _leave(form: str, texts: Texts, sender: Sender) -> str:
    return form.format(why=_why(texts, sender), unsubscribe=texts.unsubscribe, link=_LINK_FIELD)


def _text_part(text: str, sender: Sender, link: Link, texts: Texts, postal_address: str) -> Part:
    body = _ended(clean_body("text", text))
    pieces = list(split_fields("text", body))
    lines: list[str | Field] = []
    if Field.UNSUBSCRIBE_URL not in pieces:
        lines += split_fields("text", _leave(_TEXT_LEAVE, texts, sender))
    if postal_address:
        # Never searched for merge fields: braces in an address are braces.
        lines += ["\n\n" if lines else "", postal_address]
    if lines:
        begin, end = _TEXT_FOOTER.split("{lines}")
        pieces += [begin, *lines, end]
    replaced = _replacements(sender, link, Slot.EMAIL_IN_TEXT, str)
    return Part("text/plain", _filled(pieces, replaced))


def _html_part(html: str, sender: Sender, link: Link, texts: Texts, postal_address: str) -> Part:
    body = _ended(declare_utf8(clean_body("html", html)))
    lines = [] if _shows_link(body) else [_leave(_HTML_LEAVE, texts, sender)]
    if postal_address:
        shown = html_.escape(postal_address).replace("{", "&#123;").replace("\n", "<br>\n")
        lines.append(shown)
    if lines:
        footer = _HTML_FOOTER.format(language=texts.language, lines="<br><br>\n".join(lines))
        place = place_of_footer(body)
        body = body[:place] + footer + body[place:]
    replaced = _replacements(sender, link, Slot.EMAIL_IN_HTML, html_.escape)
    return Part("text/html", _filled(split_fields("html", body), replaced))


def _shows_link(html: str) -> bool:
    """Whether the author's link is where a reader can find it: not in a comment, for instance."""
    return any(
        found[1] == Field.UNSUBSCRIBE_URL
        for start, end in visible_spans(html)
        for found in FIELD.finditer(html, start, end)
    )


def _replacements(
    sender: Sender, link: Link, email: Slot, escape: Callable[[str], str]
) -> dict[Field, list[str | Slot]]:
    return {
        Field.EMAIL: [email],
        Field.UNSUBSCRIBE_URL: [escape(link.before), Slot.GUID, escape(link.after)],
        Field.LIST_DESCRIPTION: [escape(sender.description)],
    }


def _filled(
    pieces: Iterable[str | Field], replaced: dict[Field, list[str | Slot]]
) -> list[str | Slot]:
    """Fields replaced by what they stand for, and neighbouring text joined."""
    filled: list[str | Slot] = []
    run: list[str] = []
    for each in _replaced(pieces, replaced):
        if isinstance(each, str):
            run.append(each)
            continue
        if run:
            filled.append("".join(run))
            run = []
        filled.append(each)
    return [*filled, "".join(run)] if run else filled


def _replaced(
    pieces: Iterable[str | Field], replaced: dict[Field, list[str | Slot]]
) -> Iterator[str | Slot]:
    for each in pieces:
        if isinstance(each, Field):  # before `str`: a field is one too
            yield from replaced[each]
        else:
            yield each


def _list_headers(sender: Sender, base_url: str, link: Link) -> Pieces:
    """RFC 2919, and one-click unsubscribing as RFC 8058 wants it. The link is never folded."""
    list_id = _list_id(sender.list_name, host_name(base_url) or sender.domain)
    return [
        f"List-Id: {headers.mailbox(sender.description, list_id)}\r\n"
        f"List-Unsubscribe: <{link.before}".encode("ascii"),
        Slot.GUID,
        f"{link.after}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n".encode("ascii"),
    ]


def _list_id(name: ListName, domain: str) -> str:
    """A name with dots where RFC 2919 has none gets them escaped; no list's name can have `=`."""
    label = name if _DOT_ATOM.fullmatch(name) else name.replace(".", "=2E")
    list_id = f"{label}.{domain}"
    if len(list_id) <= _LONGEST_LIST_ID:
        return list_id
    short = hashlib.sha256(list_id.encode("ascii")).hexdigest()[:32]
    while len(short) + 1 + len(domain) > _LONGEST_LIST_ID:
        domain = domain.partition(".")[2]
    return f"{short}.{domain}"


def _ended(body: str) -> str:
    return body if body.endswith("\n") else f"{body}\n"
