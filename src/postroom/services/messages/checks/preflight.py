"""Preflight: what is wrong with a message, and who will receive it, before it is sent."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from postroom.composing.content_findings import ContentFinding, Level
from postroom.domain.audience.addresses import Address
from postroom.domain.messages.attachments import LARGE, Attachment
from postroom.domain.units import show_size
from postroom.mail.bodies.hostile_content import Removal
from postroom.mail.bodies.html import HtmlTag, HtmlText, shows_text, tokens
from postroom.mail.bodies.web_addresses import is_unreachable, loaded_host
from postroom.mail.mail_reader import ReadMail
from postroom.services.messages.checks.client_support import Feature, missing_features
from postroom.services.messages.checks.link_checks import MOST_LINKS
from postroom.services.messages.domains.record_findings import RecordFinding

GMAIL_LIMIT: Final = 102 * 1024
"""Bytes of HTML that Gmail shows; the rest, with the unsubscribe link, is hidden."""

LONGEST_SHOWN_SUBJECT: Final = 60
LONGEST_SHOWN_PREHEADER: Final = 100
NOBODY: Final = "nobody"
"""The code of the finding that the audience is empty."""

INCOMPLETE: Final = "incomplete-"
"""Begins the codes of findings about fields of the message; their texts begin with the field."""

EXAMPLE_TEXTS: Final[Sequence[str]] = (
    "Write your text here.",
    "What someone said.",
    "What it is about.",
)
"""What new blocks of the visual editor say (web/static/editor/catalogue.js)."""

HEAVY_PICTURES: Final = 2 * 1024 * 1024
_MOST_LISTED: Final = 5
_THIS_MACHINE: Final = ("localhost", "127.0.0.1", "::1")
_NO_TARGETS: Final = ("", "#", "http://", "https://")
_URL_IN_TEXT: Final = re.compile(r"https?://[^\s<>\"]*[^\s<>\".,;:!?)\]}']")
_PLACEHOLDER_HOSTS: Final = re.compile(
    r"localhost|127\.\d+\.\d+\.\d+|\[?::1\]?|0\.0\.0\.0|(?:.+\.)?example(?:\.(?:com|net|org))?"
    r"|.+\.(?:localhost|test|invalid|local)",
    re.IGNORECASE,
)


class AudienceSummary(msgspec.Struct, frozen=True):
    """How many subscribers get a message, and how many do not, by reason."""

    will_receive: int = 0
    excluded: Mapping[str, int] = {}


class Preflight(msgspec.Struct, frozen=True):
    """What is known about a message; `checking` says how much is still being looked at.

    `examples` are some of those who will not receive it, by reason.
    """

    findings: tuple[ContentFinding, ...]
    audience: AudienceSummary
    checking: int = 0
    examples: Mapping[str, Sequence[Address]] = {}

    @property
    def blocks_sending(self) -> bool:
        return any(each.level is Level.ERROR for each in self.findings)


def inspect_audience(audience: AudienceSummary) -> Iterator[ContentFinding]:
    if not audience.will_receive:
        yield ContentFinding(Level.ERROR, NOBODY, "Nobody would receive this message.")


def inspect_fields(used: Sequence[str], known: Container[str]) -> Iterator[ContentFinding]:
    """Look for merge fields that the list has lost since the message was scheduled."""
    for name in used:
        if name not in known:
            yield ContentFinding(
                Level.ERROR,
                "field-missing",
                f"The message uses the field {name}, which the list no longer has.",
            )


def inspect_lines(subject: str, preheader: str) -> Iterator[ContentFinding]:
    """Look at what an inbox shows, with its merge fields filled."""
    if len(subject) > LONGEST_SHOWN_SUBJECT:
        yield ContentFinding(
            Level.INFO,
            "subject-long",
            f"Phones cut the subject after about {LONGEST_SHOWN_SUBJECT} characters; it has"
            f" {len(subject)}: “{_cut(subject, LONGEST_SHOWN_SUBJECT)}”",
        )
    if not preheader:
        yield ContentFinding(
            Level.INFO,
            "preheader-missing",
            "Without a preheader, inboxes show the first words of the message.",
        )
    elif len(preheader) > LONGEST_SHOWN_PREHEADER:
        yield ContentFinding(
            Level.INFO,
            "preheader-long",
            f"Inboxes cut the preheader after about {LONGEST_SHOWN_PREHEADER} characters; it has"
            f" {len(preheader)}: “{_cut(preheader, LONGEST_SHOWN_PREHEADER)}”",
        )


def links_in(mail: ReadMail) -> list[str]:
    """Return the links of the HTML; without HTML, those of the text."""
    if mail.html is None:
        return _URL_IN_TEXT.findall(mail.text or "")
    tags = [each for each in tokens(mail.html, "a") if isinstance(each, HtmlTag)]
    return [tag.attributes.get("href", "") for tag in tags if not tag.closes]


def inspect_email(mail: ReadMail, own_host: str) -> Iterator[ContentFinding]:
    """Look at an email with all of its parts, for any recipient."""
    if mail.html is not None and not mail.text:
        yield ContentFinding(Level.WARNING, "text-missing", "The message has no text part.")
    pictures = [each for each in tokens(mail.html or "", "img") if isinstance(each, HtmlTag)]
    yield from _pictures([each.attributes for each in pictures if not each.closes], own_host)
    yield from _undescribed(mail.html or "")
    yield from _examples(mail.html or "")
    yield from _links(links_in(mail), own_host)


def inspect_size(size: int, *, varies: bool) -> Iterator[ContentFinding]:
    """Look at the bytes of the HTML, which the recipient with the longest values gets."""
    if size > GMAIL_LIMIT:
        longest = " for the subscriber with the longest values" if varies else ""
        yield ContentFinding(
            Level.WARNING,
            "size",
            f"The HTML has {size / 1024:,.0f} KB{longest}. Gmail shows the first 102 KB and hides"
            " the rest, including the unsubscribe link.",
        )


def inspect_hostile(removals: Iterable[Removal]) -> Iterator[ContentFinding]:
    """Look at what is removed from the HTML when it is sent."""
    if found := [each.what for each in removals]:
        yield ContentFinding(
            Level.WARNING,
            "content-removed",
            "Removed before sending, because it would run code or load something from the"
            f" recipient's own machine: {_listed(found, longest=120)}",
        )


def _examples(html: str) -> Iterator[ContentFinding]:
    """Look for the example text that a new block has until the author replaces it."""
    shown = {" ".join(each.text.split()) for each in tokens(html) if isinstance(each, HtmlText)}
    if left := [each for each in EXAMPLE_TEXTS if each in shown]:
        yield ContentFinding(
            Level.WARNING, "example-text", f"The message still has example text: {_listed(left)}"
        )


def _undescribed(html: str) -> Iterator[ContentFinding]:
    """Look at pictures whose alternative text is empty: a link that consists only of such a picture
    says nothing to someone who does not see it."""
    decorations: list[str] = []
    silent_links: list[str] = []
    in_link: list[str] | None = None
    for token in tokens(html):
        if isinstance(token, HtmlText):
            in_link = None if in_link is not None and shows_text(token.text) else in_link
        elif token.name == "a":
            silent_links += (token.closes and in_link) or ()
            in_link = None if token.closes else []
        elif token.name == "img" and not token.closes:
            alt, source = token.attributes.get("alt"), token.attributes.get("src", "")
            if alt is None:
                continue
            if alt.strip():
                in_link = None
            elif in_link is not None:
                in_link.append(source)
            else:
                decorations.append(source)
    if silent_links:
        yield ContentFinding(
            Level.WARNING,
            "alt-missing",
            f"{_count(silent_links, 'picture')} linked but without an alternative text: describe"
            f" where the link leads: {_listed(silent_links)}",
        )
    if decorations:
        yield ContentFinding(
            Level.INFO,
            "alt-empty",
            f"{_count(decorations, 'picture')} without a description, which is right only for"
            f" decoration: {_listed(decorations)}",
        )


def _pictures(pictures: list[dict[str, str]], own_host: str) -> Iterator[ContentFinding]:
    hosts = {each.get("src", ""): loaded_host(each.get("src", "")) for each in pictures}
    unreachable = [
        source
        for source, host in hosts.items()
        if host != own_host and (is_unreachable(host) or _PLACEHOLDER_HOSTS.fullmatch(host))
    ]
    if unreachable:
        yield ContentFinding(
            Level.WARNING,
            "picture-unreachable",
            f"{_count(unreachable, 'picture')} at an address that subscribers cannot reach:"
            f" {_listed(unreachable)}",
        )
    without_alt = [each["src"] for each in pictures if each.get("src") and "alt" not in each]
    if without_alt:
        yield ContentFinding(
            Level.WARNING,
            "alt-missing",
            f"{_count(without_alt, 'picture')} without an alternative text: {_listed(without_alt)}",
        )
    insecure = [
        each["src"] for each in pictures if each.get("src", "").lower().startswith("http://")
    ]
    if insecure:
        yield ContentFinding(
            Level.WARNING,
            "picture-insecure",
            f"{_count(insecure, 'picture')} not loaded over HTTPS: {_listed(insecure)}",
        )


def _links(links: list[str], own_host: str) -> Iterator[ContentFinding]:
    elsewhere = [each for each in links if _is_placeholder(each, own_host)]
    if elsewhere:
        yield ContentFinding(
            Level.WARNING,
            "link-placeholder",
            f"{_count(elsewhere, 'link')} to a placeholder: {_listed(elsewhere)}",
        )
    empty = [each for each in links if each.strip() in _NO_TARGETS]
    if empty:
        yield ContentFinding(
            Level.WARNING, "link-empty", f"{_count(empty, 'link')} without a target."
        )


def _is_placeholder(link: str, own_host: str) -> bool:
    try:
        host = urlsplit(link.strip()).hostname or ""
    except ValueError:
        return True
    return host != own_host and _PLACEHOLDER_HOSTS.fullmatch(host) is not None


def inspect_base_url(base_url: str) -> Iterator[ContentFinding]:
    """Look at the address of our own pages, to which every email links."""
    if (urlsplit(base_url).hostname or "") in _THIS_MACHINE:
        yield ContentFinding(
            Level.WARNING,
            "base-url",
            f"Links to unsubscribe and uploaded pictures lead to {base_url}, which subscribers"
            " cannot open. Set POSTROOM_BASE_URL to an address that they can reach.",
        )


def inspect_features(html: str) -> Iterator[ContentFinding]:
    """Look for HTML and CSS that major email programs lack."""
    found = missing_features(html)
    lost = [each for each in found if each.loses_content]
    if lost:
        yield ContentFinding(
            Level.WARNING, "content-unsupported", f"Not shown everywhere: {_programs(lost)}"
        )
    ignored = [each for each in found if not each.loses_content]
    if ignored:
        yield ContentFinding(
            Level.INFO, "style-unsupported", f"Ignored by some programs: {_programs(ignored)}"
        )


def _programs(features: list[Feature]) -> str:
    shown = [f"{each.title} (not in {', '.join(each.missing_in)})" for each in features]
    return _listed(shown, longest=200)


def inspect_links(faults: Mapping[str, str], untried: int) -> Iterator[ContentFinding]:
    """Look at links that were tried: the fault of each, or "". Some are `untried`, if there are too
    many."""
    if untried:
        more = "1 link was" if untried == 1 else f"{untried:,} links were"
        yield ContentFinding(
            Level.INFO,
            "links-untried",
            f"{more} not checked: at most {MOST_LINKS} links per message are.",
        )
    broken = [f"{_cut(link, 80)} {fault}" for link, fault in faults.items() if fault]
    if broken:
        noun = "1 link does" if len(broken) == 1 else f"{len(broken)} links do"
        yield ContentFinding(
            Level.WARNING, "link-broken", f"{noun} not work: {_listed(broken, longest=250)}"
        )


def inspect_picture_sizes(sizes: Mapping[str, int]) -> Iterator[ContentFinding]:
    """Look at the bytes of our own pictures."""
    total = sum(sizes.values())
    if total > HEAVY_PICTURES:
        yield ContentFinding(
            Level.WARNING,
            "pictures-heavy",
            f"The pictures have {show_size(total)} in total, which is slow to load on phones.",
        )


def inspect_gaps(gaps: Mapping[str, int]) -> Iterator[ContentFinding]:
    """Look at merge fields: for how many subscribers each is empty."""
    for name, count in gaps.items():
        if count:
            who = "1 subscriber sees" if count == 1 else f"{count:,} subscribers see"
            yield ContentFinding(
                Level.INFO, "field-empty", f"{name} is empty for some: {who} its default instead."
            )


def inspect_attachments(attachments: Sequence[Attachment]) -> Iterator[ContentFinding]:
    """Look at the sizes of attached files: everyone gets them."""
    total = sum(each.size for each in attachments)
    if total >= LARGE:
        yield ContentFinding(
            Level.WARNING,
            "attachments-large",
            f"Each email carries {show_size(total)} of attachments. A link to the files is lighter,"
            " and some mail servers refuse large emails.",
        )


def inspect_records(domain: str, faults: list[RecordFinding] | None) -> Iterator[ContentFinding]:
    """Look at the DNS records of the sender's domain; None means that DNS did not answer."""
    if faults is None:
        yield ContentFinding(
            Level.INFO,
            "dns-unavailable",
            f"SPF, DKIM and DMARC of {domain} were not looked up: DNS does not respond.",
        )
        return
    for each in faults:
        is_unknown = each.kind == "DKIM" and each.text.startswith("not looked up")
        yield ContentFinding(
            Level.INFO if is_unknown else Level.WARNING,
            each.kind.split()[0].lower(),
            f"{each.kind} of {domain}: {each.text}. {each.advice}",
        )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def _count(found: list[str], noun: str) -> str:
    return f"1 {noun} is" if len(found) == 1 else f"{len(found)} {noun}s are"


def _listed(found: list[str], *, longest: int = 80) -> str:
    distinct = list(dict.fromkeys(each[:longest] for each in found))
    shown = ", ".join(distinct[:_MOST_LISTED])
    more = len(distinct) - _MOST_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
