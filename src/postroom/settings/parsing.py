"""How the text of a setting becomes its value, and how a URL is shown.

Each parser raises `RefusedValue` with the requirement ("must be between 1 and 65535"); the error
that people see begins with the setting's name and ends with the value.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.errors import Invalid
from postroom.domain.units import parse_duration
from postroom.errors import PostroomError

T = TypeVar("T")
Parser = Callable[[str], T]


class RefusedValue(PostroomError, ValueError):
    """A value that does not meet a requirement; `value` is the part that fails, if it is known."""

    def __init__(self, requirement: str, value: str | None = None) -> None:
        super().__init__(requirement)
        self.value = value


def optional(parse: Parser[T]) -> Parser[T | None]:
    """Accept an empty text as None."""
    return lambda text: parse(text) if text.strip() else None


def one_of(*words: str) -> Parser[str]:
    def parse(text: str) -> str:
        if text.strip() not in words:
            raise RefusedValue(f"must be {_listed(words)}")
        return text.strip()

    return parse


def url_of(*beginnings: str) -> Parser[str]:
    """Check the scheme only; the store or transport behind the URL checks the rest."""

    def parse(text: str) -> str:
        url = text.strip()
        if url and not url.startswith(beginnings):
            raise RefusedValue(f"must start with {_listed(beginnings)}")
        return url

    return parse


def whole_number(least: int, most: int, *, also: int | None = None) -> Parser[int]:
    def parse(text: str) -> int:
        number = int(text) if re.fullmatch(r"\s*\d{1,18}\s*", text, re.ASCII) else -1
        if number != also and not least <= number <= most:
            raise RefusedValue(f"must be between {least} and {most}")
        return number

    return parse


def duration(least: str, most: str) -> Parser[timedelta]:
    shortest, longest = parse_duration(least), parse_duration(most)

    def parse(text: str) -> timedelta:
        length = parse_duration(text)
        if not shortest <= length <= longest:
            raise RefusedValue(f"must be between {least} and {most}")
        return length

    return parse


def rate(text: str) -> float | None:
    """Return emails per second; None without a limit."""
    if not text.strip() or re.fullmatch(r"\s*0+(\.0*)?\s*", text):
        return None
    return _positive_rate(text)


def percentage(text: str) -> float | None:
    """Return a percentage; None for 0 or an empty text."""
    if not text.strip() or re.fullmatch(r"\s*0+(\.0*)?\s*", text):
        return None
    found = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,6})?)\s*%?\s*", text, re.ASCII)
    if found is None or not 0.01 <= float(found[1]) <= 100:
        raise RefusedValue("must be between 0.01 and 100 percent", text.strip())
    return float(found[1])


def _positive_rate(text: str) -> float:
    found = re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*", text, re.ASCII)
    if found is None or not 0.01 <= float(found[1]) <= 100_000:
        raise RefusedValue("must be between 0.01 and 100000 emails per second", text.strip())
    return float(found[1])


def rates_by_domain(text: str) -> dict[str, float]:
    """Parse `gmail.com=20,*=5`: emails per second for each domain; `*` is every other domain."""
    rates: dict[str, float] = {}
    for pair in text.split(",") if text.strip() else ():
        domain, separator, number = pair.partition("=")
        domain = domain.strip().lower()
        if not separator or not re.fullmatch(r"\*|[^\s@.*]+(\.[^\s@.*]+)+", domain):
            raise RefusedValue("must be written like gmail.com=20,outlook.com=10,*=5")
        if domain in rates:
            raise RefusedValue(f"must name {domain} only once")
        try:
            rates[domain] = _positive_rate(number)
        except RefusedValue as exc:
            raise RefusedValue(f"for {domain} {exc}", exc.value) from exc
    return rates


def base_url(text: str) -> str:
    if text and not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", text):
        raise RefusedValue("must start with http:// or https:// and have no query")
    return text.rstrip("/")


def web_url(text: str) -> str:
    if text and not re.fullmatch(r"https?://[^\s/?#]+\S*", text):
        raise RefusedValue("must start with http:// or https://")
    return text


def email_address(text: str) -> Address:
    try:
        return parse_address(text)
    except Invalid as exc:
        raise RefusedValue("must be an email address such as ann@example.com") from exc


def ip_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as exc:
        raise RefusedValue("must be an IP address such as 127.0.0.1 or ::", text) from exc


def dns_label(text: str) -> str:
    if text and not re.fullmatch(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*", text):
        raise RefusedValue("must be a name such as s1 or mail.2026")
    return text


def domain(text: str) -> str:
    if text and not re.fullmatch(r"([a-z0-9-]{1,63}\.)+[a-z0-9-]{2,63}", text.lower()):
        raise RefusedValue("must be a domain such as bounce.example.com")
    return text.lower()


def words(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def shared_secret(text: str) -> str:
    if not text:
        return text
    if len(text) < 16:
        raise RefusedValue("must have at least 16 characters", str(len(text)))
    if not text.isprintable() or " " in text:
        raise RefusedValue("must have neither spaces nor control characters")
    return text


class TrustedProxies:
    """Addresses and networks whose X-Forwarded-* headers are trusted, or `*` for all."""

    def __init__(self, text: str) -> None:
        self.names = [each.strip() for each in text.split(",") if each.strip()]
        self._all = "*" in self.names
        self._networks = [_network(each) for each in self.names if each != "*"]

    def __contains__(self, address: str) -> bool:
        if self._all:
            return True
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as exc:
        raise RefusedValue(
            "must be addresses or networks such as 10.0.0.1,10.1.0.0/16", text
        ) from exc


def ip_addresses(text: str) -> tuple[str, ...]:
    """Return IP addresses that are separated by commas."""
    found = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(str(ipaddress.ip_address(each)))
        except ValueError as exc:
            raise RefusedValue("must be IP addresses such as 192.0.2.1,2001:db8::1", each) from exc
    return tuple(found)


def hsts(text: str) -> str:
    """Accept the booleans of TOML, too."""
    word = {"true": "yes", "false": "no"}.get(text.strip().lower(), text.strip().lower())
    return one_of("auto", "yes", "no")(word)


def secret_key(text: str) -> str:
    if text and len(text) < 32:
        raise RefusedValue("must have at least 32 characters", str(len(text)))
    return text


def secret_keys(text: str) -> tuple[str, ...]:
    return tuple(secret_key(each.strip()) for each in text.split(",") if each.strip())


def _listed(words: tuple[str, ...]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}"


MASK = "●●●"

_BETWEEN_URLS = re.compile(r",\s*(?=[A-Za-z][A-Za-z0-9+.-]*:/)")
# Scheme with any number of slashes, everything up to the last @ of the text, and the rest. Without
# a scheme, everything before the @ is taken for credentials.
_CREDENTIALS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/+)?(.*)@(.*)", re.DOTALL)
# A host is missing or the @ was forgotten: what follows the colon is not a port.
_NO_PORT = re.compile(
    r"(?!sqlite:|outbox:)([A-Za-z][A-Za-z0-9+.-]*:/+)([^/\[\]:@?]+:(?!\d*(?:[/?,]|$)).*)"
)
_PLAIN = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://[^@]*@[^@,/]*(?:[/?][^@]*)?|[^@:]*://[\w.\[\]:-]*[^@]*"
)
_SECRET_PARAMETER = re.compile(r"(?i)([?&][^=&]*(?:pass|secret|key|token)[^=&]*=)[^&,]*")


def masked(text: str) -> str:
    """Return the URL, or the URLs separated by commas, without credentials.

    An error shows a mistyped URL as well, so nothing relies on it being well-formed. The user name
    is hidden, too: many providers use a token as the user name.
    """
    urls = _BETWEEN_URLS.split(text)
    # A comma in a password looks like the end of a URL: then all of it counts as one.
    is_clear = all(_PLAIN.fullmatch(each) for each in urls)
    return ",".join(map(_masked, urls if is_clear else [text]))


def _masked(url: str) -> str:
    if found := _CREDENTIALS.fullmatch(url):
        url = f"{found[1] or ''}{MASK}@{found[3]}"
    elif found := _NO_PORT.fullmatch(url):
        url = f"{found[1]}{MASK}"
    return _SECRET_PARAMETER.sub(rf"\1{MASK}", url)
