"""Assembles an email: the headers that every email has, its parts, and links to our pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from postroom.domain.audience.addresses import Address, domain_of, parse_address
from postroom.domain.audience.lists.lists import ListName, parse_list_name
from postroom.domain.errors import Invalid
from postroom.mail import header_text
from postroom.mail.bodies.attached_files import AttachedFile, with_attachments
from postroom.mail.bodies.body_encoding import BodyPart, mime_content
from postroom.mail.bounces.envelope_tokens import EnvelopeTokens
from postroom.mail.mailing import MessageIds, Source, SplicedMailing
from postroom.mail.personal.content_conditions import MarkerKind
from postroom.mail.personal.slots import AnySlot, BranchSlot, FieldSlot, Pieces, Segments, Slot
from postroom.mail.tracking.tracking_tokens import PersonalTokens
from postroom.mail.wire_addresses import ascii_domain, envelope_address

_FOLD: Final = header_text.FOLD.encode("ascii")
_KEY: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
# Characters of RFC 3986 without those that end a link in a header (`<>`), and without a query or
# fragment, which would swallow ours. Text beyond ASCII is encoded first.
_BASE = re.compile(r"https?://[A-Za-z0-9\-._~:\[\]]+(?:/[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*)?")
_LONGEST_BASE = 500
_DOMAIN_NAME = re.compile(r"(?:[a-z0-9-]+\.)+[a-z][a-z0-9-]*[a-z0-9]")


class ListIdentity(msgspec.Struct, frozen=True):
    """The list as its emails show it. `list_identity` makes it safe for headers."""

    list_name: ListName
    description: str
    address: Address

    @property
    def domain(self) -> str:
        return ascii_domain(domain_of(self.address))


def list_identity(list_name: str, description: str, from_address: str) -> ListIdentity:
    """Return how a list appears in emails: without a description, by its name."""
    return ListIdentity(
        parse_list_name(list_name),
        header_text.checked("description", description).strip() or list_name,
        parse_address(from_address, "from_address"),
    )


def assemble(
    identity: ListIdentity,
    *,
    subject: Segments,
    date: datetime,
    key: str,
    scope: str,
    more_headers: Pieces,
    parts: Sequence[BodyPart],
    from_name: str = "",
    reply_to: str = "",
    attachments: Sequence[AttachedFile] = (),
    envelope: EnvelopeTokens | None = None,
    links: PersonalTokens | None = None,
) -> SplicedMailing:
    """Build the mailing. `key` and `scope`: see `MessageIds`. `more_headers` are whole lines.
    Without a `from_name`, it is from the list by its description. `links` are the tokens of links
    that differ between recipients."""
    if not _KEY.fullmatch(key):
        raise Invalid("ref", "must be usable in a Message-ID")
    name = header_text.checked("from_name", from_name) or identity.description
    mailbox = header_text.mailbox(name, envelope_address(identity.address))
    if envelope is not None:
        more_headers = [*more_headers, *token_headers(envelope)]
    answers_to = envelope_address(parse_address(reply_to, "reply_to")) if reply_to else ""
    author = f"From: {mailbox}\r\n" + (f"Reply-To: {answers_to}\r\n" if answers_to else "")
    pieces: Pieces = [
        f"{author}To: ".encode(),
        Slot.TO,
        b"\r\nSubject: ",
        *_subject(subject),
        f"\r\nDate: {header_text.date(date)}\r\nMessage-ID: <{key}.".encode("ascii"),
        Slot.MESSAGE_ID,
        f"@{identity.domain}>\r\n".encode("ascii"),
        *more_headers,
        b"MIME-Version: 1.0\r\n",
        *with_attachments(mime_content(parts), attachments),
    ]
    mailing = SplicedMailing(
        pieces,
        from_address=identity.address,
        subject="".join(each if isinstance(each, str) else _shown(each) for each in subject),
        ids=MessageIds(key, identity.domain, scope),
        source=Source(subject, name, more_headers, parts, answers_to, attachments),
        envelope=envelope,
        links=links,
    )
    mailing.list_name = identity.list_name
    return mailing


def token_headers(envelope: EnvelopeTokens) -> Pieces:
    """Return the headers that say which email it is, for us and for providers that repeat
    one in what they report."""
    pieces: Pieces = []
    for name, form in envelope.headers.items():
        before, _, after = form.partition("TOKEN")
        pieces += [f"{name}: {before}".encode("ascii"), Slot.BOUNCE_TOKEN, f"{after}\r\n".encode()]
    return pieces


def _shown(slot: AnySlot) -> str:
    match slot:
        case Slot():
            return "{{ email }}"
        case FieldSlot():
            return "…"
        case BranchSlot():
            return ""


def _subject(segments: Segments) -> Pieces:
    """Encode the subject. Encoded words join an inserted address and the text around it without a
    gap, and each can be made without knowing the others.

    The line is folded between its parts. The first part that every recipient gets is not folded:
    those before it, each of which may be missing, are folded behind themselves.
    """
    texts = [header_text.checked("subject", each) for each in segments if isinstance(each, str)]
    if len(texts) == len(segments):
        whole = "".join(texts)
        if not whole.strip():
            raise Invalid("subject", "must not be empty")
        return [header_text.unstructured(whole).encode("ascii")]
    anchor = _first_certain(segments)
    if anchor is None and len(segments) > 1:
        anchor = len(segments)
        segments = [*segments, " "]  # something to fold before, if everything else is missing
    pieces: Pieces = []
    for position, each in enumerate(segments):
        if isinstance(each, BranchSlot):
            pieces.append(each)
            continue
        before = anchor is not None and position > anchor
        after = anchor is not None and position < anchor
        if isinstance(each, FieldSlot):
            # An empty value folds nothing: no line of a header may be blank.
            pieces.append(msgspec.structs.replace(each, fold_before=before, fold_after=after))
            continue
        pieces += [_FOLD] if before else []
        if isinstance(each, Slot):
            pieces.append(each)
        else:
            pieces.append(header_text.encoded_words(each, header_text.IN_TEXT).encode("ascii"))
        pieces += [_FOLD] if after else []
    return pieces


def _first_certain(segments: Segments) -> int | None:
    """Return the index of the first segment that every recipient gets and that is never empty."""
    in_branch = False
    for position, each in enumerate(segments):
        if isinstance(each, BranchSlot):
            in_branch = each.kind is not MarkerKind.END
        elif not in_branch and not isinstance(each, FieldSlot):
            return position
    return None


class Link(msgspec.Struct, frozen=True):
    """A URL in two parts, with the subscriber's GUID between them."""

    before: str
    after: str


def unsubscribe_link(base_url: str, list_name: ListName, ref: str = "") -> Link:
    """Return the link. `ref` is the message that it is in: who unsubscribes by it counts there."""
    return _link(base_url, "unsubscribe", list_name, ref)


def confirm_link(base_url: str, list_name: ListName, language: str = "") -> Link:
    """Return the link; without a language, the page uses the browser's."""
    link = _link(base_url, "confirm", list_name)
    return Link(link.before, f"{link.after}&lang={quote(language, safe='')}") if language else link


def confirm_changes_link(
    base_url: str, list_name: ListName, changes: str, language: str = ""
) -> Link:
    """Return the link that confirms changes, for which a digest stands; without a language, the
    page uses the browser's."""
    link = _link(base_url, "confirm/changes", list_name)
    lang = f"&lang={quote(language, safe='')}" if language else ""
    return Link(link.before, f"{link.after}&changes={quote(changes, safe='')}{lang}")


def preferences_link(base_url: str, list_name: ListName, ref: str = "") -> Link:
    """Return the link; `ref` as for `unsubscribe_link`, because the page leads there."""
    return _link(base_url, "preferences", list_name, ref)


def address_change_link(base_url: str, list_name: ListName, token: str, language: str = "") -> str:
    """Return the URL that confirms a new address, without the GUID; without a language, the page
    uses the browser's."""
    query = {"listName": list_name, "token": token} | ({"lang": language} if language else {})
    return f"{_ascii_base(base_url)}/preferences/address?{urlencode(query, safe='')}"


def host_name(base_url: str) -> str | None:
    """Return the domain name in the base URL; None for an IP address or a single word, which mean
    nothing elsewhere."""
    host = urlsplit(_ascii_base(base_url)).hostname or ""
    return host if _DOMAIN_NAME.fullmatch(host) else None


def _link(base_url: str, page: str, list_name: ListName, ref: str = "") -> Link:
    base = _ascii_base(base_url)
    named = f"&listName={quote(list_name, safe='')}"
    return Link(f"{base}/{page}?id=", f"{named}&ref={ref}" if ref else named)


def _ascii_base(base_url: str) -> str:
    """Return the base URL in ASCII, without a slash at its end; raise `Invalid`."""
    # Python's parser silently drops line ends, so they are checked first.
    if base_url.isprintable() and " " not in base_url:
        scheme, _, rest = base_url.partition("://")
        host, slash, path = rest.partition("/")
        name, colon, port = host.partition(":") if not host.isascii() else (host, "", "")
        base = f"{scheme.lower()}://{ascii_domain(name)}{colon}{port}{slash}{_quoted(path)}"
        if len(base) <= _LONGEST_BASE and _BASE.fullmatch(base):
            return base.rstrip("/")
    raise Invalid(
        "base_url",
        "must look like https://lists.example.com, without spaces, '?', '#' or a password",
    )


def _quoted(path: str) -> str:
    return quote(path, safe="!$&'()*+,;=:@%/?#")
