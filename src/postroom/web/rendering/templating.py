"""The template environment (output is escaped, an undefined name is an error), and how pages write
numbers, statuses and outcomes; times are in `times.py`."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import jinja2

from postroom.domain.messages.delivery.bounces import BounceKind, BounceSource
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.units import show_size
from postroom.web.rendering import times

FOLDER = Path(__file__).parent.parent
STATIC = FOLDER / "static"
# Errors that start with one of these verbs lack a subject.
_VERBS = frozenset(
    {"is", "are", "has", "needs", "contains", "may", "must", "can", "cannot", "does", "begins",
     "ends", "names", "takes", "was", "belongs", "points", "returned"}
)  # fmt: skip
STATUS_LABELS: Final = {
    MessageStatus.DRAFT: "Draft",
    MessageStatus.PENDING: "Scheduled",
    MessageStatus.QUEUING: "Preparing",
    MessageStatus.PROCESSING: "Sending",
    MessageStatus.COMPLETED: "Sent",
    MessageStatus.PAUSED: "Paused",
    MessageStatus.CANCELLED: "Cancelled",
}
OUTCOME_LABELS: Final = {
    EmailOutcome.PENDING: "Waiting",
    EmailOutcome.ACCEPTED: "Accepted",
    EmailOutcome.REFUSED: "Refused",
    EmailOutcome.SUPPRESSED: "Skipped",
    EmailOutcome.IN_DOUBT: "Uncertain",
}
BOUNCE_LABELS: Final = {
    BounceKind.GONE: "Mailbox does not exist",
    BounceKind.FULL: "Mailbox full",
    BounceKind.TEMPORARY: "Temporary failure",
    BounceKind.POLICY: "Rejected by the provider",
    BounceKind.CONTENT: "Message rejected",
    BounceKind.COMPLAINT: "Marked as spam",
    BounceKind.AUTO_REPLY: "Automatic reply",
    BounceKind.CHALLENGE: "Sender verification",
    BounceKind.UNKNOWN: "Other",
}
SOURCE_LABELS: Final = {
    BounceSource.SENDING: "While sending",
    BounceSource.SMTP: "SMTP",
    BounceSource.LMTP: "LMTP",
    BounceSource.PIPE: "Pipe",
    BounceSource.API: "API",
    BounceSource.IMAP: "IMAP",
    BounceSource.POP3: "POP3",
    BounceSource.SES: "Amazon SES",
    BounceSource.SENDGRID: "SendGrid",
    BounceSource.MAILGUN: "Mailgun",
    BounceSource.POSTMARK: "Postmark",
    BounceSource.BREVO: "Brevo",
    BounceSource.SPARKPOST: "SparkPost",
    BounceSource.AZURE: "Azure Communication Services",
    "import": "Import",
    "command line": "Command line",
}
_QUOTED: Final = re.compile(r"(?<![^\s(])'([^'\n]*)'(?![A-Za-z])")
_APOSTROPHE: Final = re.compile(r"(?<=[A-Za-z])'(?=[a-z])")
_STORED_STATUS: Final = re.compile(rf"\b({'|'.join(STATUS_LABELS)})\b")
# Most browsers name others, too: the first that fits counts.
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS: Final = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
_LONGEST_BROWSER: Final = 60


@cache
def template_environment() -> jinja2.Environment:
    """Return the templates, which are compiled when they are first used: once in a process, however
    many applications it has."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        enable_async=False,
    )
    environment.filters.update(times.FILTERS)
    environment.filters.update(number=number, percent=percent, size=show_size, sentence=sentence)
    environment.filters.update(
        typographic=typographic,
        queue_url=queue_url,
        status_label=status_label,
        outcome_label=outcome_label,
        bounce_label=bounce_label,
        source_label=source_label,
        browser_name=browser_name,
    )
    environment.globals["static"] = static
    return environment


@cache
def static(name: str) -> str:
    """Return the URL of a static file. It changes with the content: cache it forever."""
    content = (STATIC / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:10]}"


def number(value: float) -> str:
    """Return for example "1,234,567"."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def percent(part: float, whole: float) -> str:
    if not whole:
        return "0%"
    share = 100 * part / whole
    return f"{share:.0f}%" if share in (0, 100) else f"{min(max(share, 0.1), 99.9):.1f}%"


def sentence(problem: str, field: str) -> str:
    """Turn an error about a form field into a sentence; one that starts with a verb gets the
    field's label as its subject, and quoted values get the quotation marks of our pages."""
    problem = _QUOTED.sub(r"“\1”", problem)
    first = problem.partition(" ")[0]
    text = f"{field} {problem}" if first in _VERBS else problem[:1].upper() + problem[1:]
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def typographic(text: str) -> str:
    """Return a text that other programs see, too, with the apostrophes and quotation marks of our
    pages."""
    return _APOSTROPHE.sub("’", _QUOTED.sub(r"“\1”", text))


def queue_url(name: str) -> str:
    """Return the URL of a queue's page."""
    return f"/queues/{quote(name)}"


def render(environment: jinja2.Environment, template: str, values: dict[str, Any]) -> str:
    return environment.get_template(template).render(values)


def status_label(status: str) -> str:
    return STATUS_LABELS[MessageStatus(status)]


def with_status_labels(text: str) -> str:
    """Replace the stored statuses in the text of an error by those that pages show."""
    return _STORED_STATUS.sub(lambda found: status_label(found[0]), text)


def outcome_label(outcome: str) -> str:
    return OUTCOME_LABELS[EmailOutcome(outcome)]


def bounce_label(kind: str) -> str:
    return BOUNCE_LABELS[BounceKind(kind)]


def source_label(source: str) -> str:
    """Return how pages name what suppressed an address; someone's email address stays as it is."""
    return SOURCE_LABELS.get(source, source)


def counted(count: int, one: str, many: str) -> str:
    """Return for example "1 address" or "2,000 addresses"."""
    return f"{count:,} {one if count == 1 else many}"


def short(text: str, longest: int = 200) -> str:
    """Shorten user input for a flash message, which has to fit into a cookie."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def browser_name(user_agent: str) -> str:
    """Return the name that people know a browser by, such as "Firefox on Windows"; the `User-Agent`
    header itself if nothing is known in it."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    if browser and system:
        return f"{browser} on {system}"
    return browser or user_agent[:_LONGEST_BROWSER] or "Unknown"
