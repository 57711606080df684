"""The properties of a list's sign-up form: what it asks for, and where it may be embedded."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from postroom.domain.audience.lists.list_property import Input, ListForm, ListProperty, lines
from postroom.domain.errors import Invalid
from postroom.domain.plain_text import one_line

MOST_ORIGINS: Final = 20
_LONGEST_URL: Final = 500
_LONGEST_ORIGIN: Final = 200
_VERSION_DIGITS: Final = 12

# The characters of RFC 3986, without spaces, quotes and brackets that could end a header or a
# directive of a policy.
_URL: Final = re.compile(
    r"https?://[A-Za-z0-9.-]+(:\d{1,5})?([/?#][A-Za-z0-9\-._~!$&()*+=:@%/?#]*)?"
)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1"})


def parse_own_url(text: str, field: str) -> str:
    """Return the address of a page on the organisation's site, or "". `Invalid`.

    HTTPS only, because visitors are redirected there; on the same machine, HTTP is allowed.
    """
    url = one_line(field, text, longest=_LONGEST_URL, required=False)
    if url and not _is_safe(url):
        raise Invalid(field, f"must look like https://www.example.com/thanks, not {url[:60]!r}")
    return url


def parse_origins(text: str, field: str = "allowed_origins") -> str:
    """Return origins such as `https://www.example.com`, one per line, each once. `Invalid`."""
    if not isinstance(text, str):
        raise Invalid(field, "must be text")
    origins: dict[str, None] = {}
    for each in text.split():
        origin = one_line(field, each, longest=_LONGEST_ORIGIN).rstrip("/").lower()
        parts = urlsplit(origin) if _is_safe(origin) else None
        if parts is None or parts.path or parts.query or parts.fragment:
            raise Invalid(field, f"must look like https://www.example.com, not {each[:60]!r}")
        origins[origin] = None
    if len(origins) > MOST_ORIGINS:
        raise Invalid(field, f"must have at most {MOST_ORIGINS} sites, not {len(origins)}")
    return "\n".join(origins)


def origin_of(url: str) -> str:
    """Return the origin of a page's address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def consent_version(text: str) -> str:
    """Return the version of a consent text: the same text has the same version. "" without one."""
    return hashlib.sha256(text.encode()).hexdigest()[:_VERSION_DIGITS] if text else ""


def consent_given(text: str, at: datetime, website: str) -> str:
    """Return what is kept of a sign-up: when and where someone agreed, and to which text. Without
    a website, it was our own page."""
    where = f" on {website}" if website else ""
    return f"Agreed {at:%Y-%m-%d %H:%M:%S} UTC{where} to version {consent_version(text)}: {text}"


def _is_safe(url: str) -> bool:
    if not _URL.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:  # such as a port above 65535
        return False
    return port != 0 and (host in _LOOPBACK or (parts.scheme == "https" and "." in host))


def _link(name: str, **others: str) -> ListProperty:
    return ListProperty(
        name=name,
        check=partial(parse_own_url, field=name),
        input=Input.LINK,
        longest=_LONGEST_URL,
        form=ListForm.SIGNUP_PAGE,
        **others,  # type: ignore[arg-type]
    )


FORM_PROPERTIES: Final = (
    ListProperty(
        name="ask_name",
        stored_as="AskName",
        label="Ask for the name",
        help="Whether the sign-up form asks for first and last name, which are optional.",
        check=bool,
        default=False,
        input=Input.FLAG,
        form=ListForm.SIGNUP_PAGE,
    ),
    lines(
        "consent_text",
        500,
        stored_as="ConsentText",
        label="Consent",
        help="A box that people have to tick, for example “I agree to receive the newsletter.”"
        " The text is kept with each subscriber. Leave empty for no box.",
        example="I agree to receive the newsletter.",
        form=ListForm.SIGNUP_PAGE,
    ),
    ListProperty(
        name="ask_tracking",
        stored_as="AskTracking",
        label="Ask for consent to tracking",
        help="Whether the form and the preferences page have an optional box that allows you to"
        " record who opens emails and clicks links.",
        check=bool,
        default=False,
        input=Input.FLAG,
        form=ListForm.SIGNUP_PAGE,
    ),
    _link(
        "privacy_url",
        stored_as="PrivacyUrl",
        label="Privacy policy",
        help="Your privacy policy, which is linked below the form.",
        example="https://www.example.com/privacy",
    ),
    ListProperty(
        name="proof_of_work",
        stored_as="ProofOfWork",
        label="Proof of work",
        help="Whether the browser has to solve a small task (ALTCHA) before it can sign up, which"
        " makes mass sign-ups expensive. It requires JavaScript, but no other service.",
        check=bool,
        default=False,
        input=Input.FLAG,
        form=ListForm.SIGNUP_PAGE,
    ),
    ListProperty(
        name="allowed_origins",
        stored_as="AllowedOrigins",
        label="Sites that may embed the form",
        help="Sites that may embed the form, one per line, for example https://www.example.com. If"
        " empty, the form cannot be embedded, but your own form can be on any site.",
        check=parse_origins,
        input=Input.LINKS,
        longest=MOST_ORIGINS * (_LONGEST_ORIGIN + 1),
        example="https://www.example.com\nhttps://shop.example.com",
        form=ListForm.SIGNUP_PAGE,
    ),
    _link(
        "thank_you_url",
        stored_as="ThankYouUrl",
        label="Page after signing up",
        help="A page of your site that asks people to check their email. Leave empty to use"
        " Postroom’s page.",
        example="https://www.example.com/thanks",
    ),
    _link(
        "confirmed_url",
        stored_as="ConfirmedUrl",
        label="Page after confirming",
        help="A page of your site that welcomes people. Leave empty to use Postroom’s page.",
        example="https://www.example.com/welcome",
    ),
)
