"""Compiles a message for all of its recipients.

Every body contains the unsubscribe link: where the author put `{{ unsubscribe_url }}`, or else in a
footer that is added. The list's postal address, if it has one, is in that footer, too, unless the
author's design already shows it.
"""

from __future__ import annotations

import hashlib
import html as html_
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import ClassVar, Final
from urllib.parse import quote, urlsplit

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.lists.mail_headers import header_pairs, parse_headers
from postroom.domain.errors import Invalid
from postroom.domain.languages import LANGUAGES
from postroom.domain.messages.refs import MessageRef, is_ref
from postroom.mail import header_text
from postroom.mail.assembly import (
    Link,
    ListIdentity,
    assemble,
    host_name,
    list_identity,
    preferences_link,
    unsubscribe_link,
)
from postroom.mail.bodies.attached_files import AttachedFile
from postroom.mail.bodies.body_encoding import BodyPart
from postroom.mail.bodies.body_files import clean_body
from postroom.mail.bodies.documents import framed, is_document
from postroom.mail.bodies.hostile_content import without_hostile_content
from postroom.mail.bodies.html import contains_visibly, declare_utf8, footer_position
from postroom.mail.bodies.preheader import with_preheader
from postroom.mail.bounces.envelope_tokens import EnvelopeTokens
from postroom.mail.mailing import Mailing
from postroom.mail.personal.content_conditions import (
    Marker,
    find_markers,
    for_everybody,
    line_span,
    shown_marker,
)
from postroom.mail.personal.field_contexts import FieldPlace, fields_with_places
from postroom.mail.personal.merge_fields import (
    NO_COLUMNS,
    OWN_RULES,
    Columns,
    CommonField,
    FieldRule,
    MergeField,
    find_fields,
    with_quotes_escaped,
)
from postroom.mail.personal.slots import AnySlot, BranchSlot, FieldSlot, Pieces, Slot, ValuePlace
from postroom.mail.tracking.link_tracking import (
    LinkTracking,
    with_token_slots,
    with_tracked_links,
)
from postroom.translations import Translator

_LINK_FIELD: Final = f"{{{{ {CommonField.UNSUBSCRIBE_URL} }}}}"
_PREFERENCES_FIELD: Final = f"{{{{ {CommonField.PREFERENCES_URL} }}}}"
_LIST_FIELD: Final = f"{{{{ {CommonField.LIST_DESCRIPTION} }}}}"
_HTML_FOOTER: Final = """
<div lang="{language}" style="margin:32px 0 0;padding:16px 0;border-top:1px solid #d8d8d8;\
color:#6b6b6b;font:13px/1.5 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;\
text-align:center">
{lines}
</div>
"""
# In ASCII, so that a body in ASCII remains one, and its lines and links whole.
_HTML_LEAVE: Final = """{why}<br>
<a href="{preferences_link}" style="color:#6b6b6b;text-decoration:underline">{preferences}</a>
&nbsp;&middot;&nbsp;
<a href="{link}" style="color:#6b6b6b;text-decoration:underline">{unsubscribe}</a>"""
_TEXT_FOOTER: Final = "\n--------\n{lines}\n"
_TEXT_LEAVE: Final = "{why}\n{preferences}: {preferences_link}\n{unsubscribe}: {link}"

# Where the author's link counts: not in a comment, for instance.
_LINK = re.compile(r"\{\{[ \t]*unsubscribe_url\b")
_TAG = re.compile(r"<[^<>]*>")
_DOT_ATOM = re.compile(r"[\w-]+(?:\.[\w-]+)*", re.ASCII)
_LONGEST_LIST_ID = 255  # RFC 2919 3
_NOT_IN_SENDER = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_SENDER = 15  # of the last part of Feedback-ID, says Gmail


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
    preheader: str = "",
    from_name: str = "",
    reply_to: str = "",
    headers: str = "",
    attachments: Sequence[AttachedFile] = (),
    web_url: str = "",
    columns: Columns = NO_COLUMNS,
    envelope: EnvelopeTokens | None = None,
    tracking: LinkTracking | None = None,
) -> Mailing:
    """Build everything that is the same for all recipients. A blank body counts as none. `columns`
    are the values that recipients bring; `tracking` is for links in the HTML."""
    identity = list_identity(list_name, description, from_address)
    named = ref if is_ref(ref) else ""  # a draft or a welcome email has no results
    links = _Links(
        unsubscribe_link(base_url, identity.list_name, named),
        preferences_link(base_url, identity.list_name, named),
        web_url or base_url,
    )
    numbers = {name: number for number, name in enumerate(columns.all)}
    _ = Translator(language)
    parts = []
    if text and text.strip():
        parts.append(_text_part(text, _TextValues(identity, links, numbers), _, postal_address))
    if html and html.strip():
        html = with_preheader(html, preheader)
        values = _HtmlValues(identity, links, numbers)
        own_host = urlsplit(base_url).hostname or ""
        parts.append(_html_part(html, values, _, postal_address, tracking, own_host))
    if not parts:
        raise Invalid("body", "a message needs an HTML or a text body")
    return assemble(
        identity,
        subject=_joined(
            [_SubjectValues(identity, links, numbers).filled("subject", subject.strip())]
        ),
        date=date,
        key=ref,
        scope=identity.list_name,
        more_headers=[
            *_list_headers(identity, base_url, links.unsubscribe),
            *_feedback_id(ref, identity),
            *_own_headers(headers),
        ],
        parts=parts,
        from_name=from_name,
        reply_to=reply_to,
        attachments=attachments,
        envelope=envelope,
        links=None if tracking is None else tracking.personal,
    )


def _leave(form: str, _: Translator, identity: ListIdentity) -> str:
    why = _("You receive this email because you subscribed to %(list)s.", list=_LIST_FIELD)
    if identity.description.endswith("."):  # such as `e. V.`
        why = why.replace(f"{_LIST_FIELD}.", _LIST_FIELD)
    return form.format(
        why=why,
        preferences=_("Preferences"),
        preferences_link=_PREFERENCES_FIELD,
        unsubscribe=_("Unsubscribe"),
        link=_LINK_FIELD,
    )


def _text_part(text: str, values: _TextValues, _: Translator, postal_address: str) -> BodyPart:
    body = _ended(clean_body("text", text))
    footer: list[str | AnySlot] = []
    certain = for_everybody(body, in_html=False)
    fields = find_fields("text", certain, values.rules)
    if not any(each.name == CommonField.UNSUBSCRIBE_URL for each in fields):
        footer += values.filled("text", _leave(_TEXT_LEAVE, _, values.identity))
    if postal_address and not _says(certain, postal_address):
        # Not searched for merge fields: braces in a postal address are literal.
        footer += ["\n\n" if footer else "", postal_address]
    if footer:
        begin, end = _TEXT_FOOTER.split("{lines}")
        footer = [begin, *footer, end]
    return BodyPart("text/plain", _joined([values.filled("text", body), footer]))


def _html_part(
    html: str,
    values: _HtmlValues,
    _: Translator,
    postal_address: str,
    tracking: LinkTracking | None,
    own_host: str,
) -> BodyPart:
    body = _ended(with_quotes_escaped(declare_utf8(clean_body("html", html))))
    body = without_hostile_content(body, own_host)
    certain = for_everybody(body, in_html=True)
    lines = [] if contains_visibly(certain, _LINK) else [_leave(_HTML_LEAVE, _, values.identity)]
    if postal_address and not _says(html_.unescape(_TAG.sub(" ", certain)), postal_address):
        shown = html_.escape(postal_address).replace("{", "&#123;").replace("\n", "<br>\n")
        lines.append(shown)
    footer = ""
    if lines:
        footer = _HTML_FOOTER.format(language=_.language, lines="<br><br>\n".join(lines))
    if tracking is not None:
        body = with_tracked_links(body, tracking)
        footer += tracking.end
    if footer:
        place = footer_position(body)
        body = body[:place] + footer + body[place:]
    if not is_document(body):
        body = framed(body, language=_.language, title=values.identity.description)
    filled: Iterable[str | AnySlot] = values.filled("html", body)
    if tracking is not None and tracking.personal is not None:
        filled = with_token_slots(filled, tracking)
    return BodyPart("text/html", _joined([filled]))


class _Links(msgspec.Struct, frozen=True):
    """The subscriber's links, which contain the GUID, and the one to the message on the web, which
    is the same for everyone."""

    unsubscribe: Link
    preferences: Link
    web: str


class _TextValues(msgspec.Struct, frozen=True):
    """The values of merge fields, escaped for their places in a plain text."""

    identity: ListIdentity
    links: _Links
    numbers: Mapping[str, int]
    """The fields of the list and the conditions, by their numbers among a recipient's values."""

    email: ClassVar[Slot] = Slot.EMAIL_IN_TEXT
    in_html: ClassVar[bool] = False
    places: ClassVar[Mapping[FieldPlace, ValuePlace]] = {FieldPlace.TEXT: ValuePlace.TEXT}

    @property
    def rules(self) -> Mapping[str, FieldRule]:
        return {**OWN_RULES, **dict.fromkeys(self.numbers, FieldRule())}

    def escape(self, text: str) -> str:
        return text

    def filled(self, field: str, body: str) -> list[str | AnySlot]:
        """Replace the merge fields and the markers of a body. `Invalid`."""
        filled: list[str | AnySlot] = []
        done = 0
        inserted = [
            (found.start, found.end, self.of(found, place))
            for found, place in fields_with_places(field, body, self.rules, in_html=self.in_html)
        ]
        for marker in find_markers(field, body):
            start, end = line_span(body, marker) if field == "text" else (marker.start, marker.end)
            inserted.append((start, end, [self._branch(marker)]))
        for start, end, pieces in sorted(inserted, key=itemgetter(0)):
            filled += [body[done:start], *pieces]
            done = end
        return [*filled, body[done:]]

    def _branch(self, marker: Marker) -> BranchSlot:
        number = self.numbers.get(marker.condition)
        if number is None:  # its recipients were planned without it
            raise Invalid("html", f"{shown_marker(marker)} has no value for the recipients")
        return BranchSlot(number, marker.kind)

    def of(self, field: MergeField, place: FieldPlace) -> list[str | AnySlot]:
        if (number := self.numbers.get(field.name)) is not None:
            value_place = self.places.get(place, ValuePlace.IN_LINK)
            return [FieldSlot(number, value_place, field.default or "")]
        match CommonField(field.name):
            case CommonField.EMAIL:
                return [self.email if place is FieldPlace.TEXT else Slot.EMAIL_IN_URL]
            case CommonField.LIST_DESCRIPTION:
                shown = self.identity.description
                return [self.escape(shown) if place is FieldPlace.TEXT else quote(shown, safe="")]
            case CommonField.UNSUBSCRIBE_URL:
                return self._link(self.links.unsubscribe, place)
            case CommonField.PREFERENCES_URL:
                return self._link(self.links.preferences, place)
            case CommonField.WEB_URL:
                page = self.links.web
                return [quote(page, safe="") if place is FieldPlace.IN_LINK else self.escape(page)]

    def _link(self, link: Link, place: FieldPlace) -> list[str | AnySlot]:
        if place is FieldPlace.IN_LINK:
            return [quote(link.before, safe=""), Slot.GUID, quote(link.after, safe="")]
        return [self.escape(link.before), Slot.GUID, self.escape(link.after)]


class _HtmlValues(_TextValues, frozen=True):
    email: ClassVar[Slot] = Slot.EMAIL_IN_HTML
    in_html: ClassVar[bool] = True
    places: ClassVar[Mapping[FieldPlace, ValuePlace]] = {
        FieldPlace.TEXT: ValuePlace.HTML,
        FieldPlace.LINK_START: ValuePlace.LINK,
    }

    def escape(self, text: str) -> str:
        return html_.escape(text)


class _SubjectValues(_TextValues, frozen=True):
    """The values of a subject, in which nothing is a link."""

    email: ClassVar[Slot] = Slot.EMAIL_IN_SUBJECT

    def of(self, field: MergeField, place: FieldPlace) -> list[str | AnySlot]:
        if (number := self.numbers.get(field.name)) is not None:
            return [FieldSlot(number, ValuePlace.SUBJECT, field.default or "")]
        return super().of(field, FieldPlace.TEXT)


def _joined(pieces: Iterable[Iterable[str | AnySlot]]) -> list[str | AnySlot]:
    """Join neighbouring texts, and leave out empty ones."""
    joined: list[str | AnySlot] = []
    run: list[str] = []
    for each in itertools.chain.from_iterable(pieces):
        if isinstance(each, str):
            run.append(each)
            continue
        if text := "".join(run):
            joined.append(text)
        run = []
        joined.append(each)
    text = "".join(run)
    return [*joined, text] if text else joined


def _says(text: str, words: str) -> bool:
    """Return whether a text contains these words, however its lines are broken."""
    return " ".join(words.split()) in " ".join(text.split())


def _list_headers(identity: ListIdentity, base_url: str, link: Link) -> Pieces:
    """Return List-Id (RFC 2919) and one-click unsubscribe (RFC 8058). The link is never folded."""
    list_id = _list_id(identity.list_name, host_name(base_url) or identity.domain)
    return [
        f"List-Id: {header_text.mailbox(identity.description, list_id)}\r\n"
        f"List-Unsubscribe: <{link.before}".encode("ascii"),
        Slot.GUID,
        f"{link.after}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n".encode("ascii"),
    ]


def _feedback_id(ref: MessageRef, identity: ListIdentity) -> Pieces:
    """Return Feedback-ID: Gmail's Postmaster Tools count complaints by each of its parts, the last
    of which says who sends and stays the same."""
    sender = _NOT_IN_SENDER.sub("-", identity.domain)[:_LONGEST_SENDER].strip("-")
    line = f"Feedback-ID: {ref}:{identity.list_name}:bulk:{sender}\r\n"
    return [line.encode("ascii", "replace")]  # `assemble` refuses a hostile ref


def _own_headers(headers: str) -> Pieces:
    """Return the headers that the list adds."""
    return [
        f"{name}: {header_text.unstructured(value)}\r\n".encode("ascii")
        for name, value in header_pairs(parse_headers(headers))
    ]


def _list_id(name: ListName, domain: str) -> str:
    """Escape dots where RFC 2919 allows none, with `=`, which no list name contains."""
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
