"""The servers that a transport URL names.

    smtp://user:password@host:25?tls=required
    smtps://host,smtp://other:2525          several, the first that can be reached is used

Credentials are percent-encoded, so a comma in one is `%2C`. No error repeats a password.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NoReturn
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from postroom.domain.errors import Invalid

FIELD = "transport"
_PORTS = {"smtp": 25, "smtps": 465}
_ENCODED = (
    "not a URL: the port is a number, and '@', ':', '/', ',' in a password are written"
    " %40, %3A, %2F, %2C"
)
_NAME = re.compile(r"[A-Za-z0-9._\[\]:-]{1,255}")


class Tls(StrEnum):
    IMPLICIT = "implicit"
    """From the first byte (`smtps`, RFC 8314)."""

    REQUIRED = "required"
    """By STARTTLS; a server that does not offer it gets no mail."""

    OPPORTUNISTIC = "opportunistic"
    """By STARTTLS where it is offered."""

    OFF = "off"


class SmtpServer(msgspec.Struct, frozen=True):
    """One server and how to talk to it."""

    host: str
    port: int
    tls: Tls = Tls.OPPORTUNISTIC
    username: str = ""
    password: str = ""
    verify: bool = True
    ca_file: str = ""
    ehlo: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __repr__(self) -> str:
        return f"SmtpServer({self}, tls={self.tls})"  # a user name may be a token


def parse_servers(urls: str) -> tuple[SmtpServer, ...]:
    """The servers of a comma-separated list of URLs. `Invalid` says what is wrong."""
    # Only where a URL begins: parameters may contain commas, too.
    parts = re.split(r",\s*(?=[A-Za-z]+://)", urls.strip())
    return tuple(_parse_server(each.strip()) for each in parts)


def _parse_server(url: str) -> SmtpServer:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        _refuse(_ENCODED)
    if "@" in parts.path + parts.fragment or ("@" in parts.query and "@" not in parts.netloc):
        _refuse(_ENCODED)  # part of a password would be taken for the host, and named below
    if parts.scheme not in _PORTS:
        _refuse(f"a mail server's URL begins with smtp:// or smtps:// (found {parts.scheme!r})")
    if not host or not _NAME.fullmatch(host):
        _refuse("the mail server's host is missing or is no host name")
    if parts.path not in ("", "/") or parts.fragment:
        _refuse(f"nothing may follow the port of {host} but '?' and parameters")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(username) != bool(password):
        _refuse(f"the URL of {host} has a user or a password, but not both")
    if "\0" in username + password:
        _refuse(f"the user or the password for {host} contains a NUL character")
    parameters = _parameters(parts, host)
    return SmtpServer(
        host=host,
        port=port or _PORTS[parts.scheme],
        tls=_tls(parts.scheme, parameters.tls, host),
        username=username,
        password=password,
        verify=parameters.verify == "yes",
        ca_file=parameters.ca,
        ehlo=parameters.ehlo,
    )


class _Parameters(msgspec.Struct):
    tls: str = ""
    verify: str = "yes"
    ca: str = ""
    ehlo: str = ""


def _parameters(parts: SplitResult, host: str) -> _Parameters:
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = _Parameters.__struct_fields__
    for name in given:
        if name not in known:
            _refuse(f"{name!r} is no parameter of {host}: there are {', '.join(known)}")
    found = _Parameters(**given)
    if found.verify not in ("yes", "no"):
        _refuse(f"verify of {host} is 'yes' or 'no'")
    if found.ehlo and not _NAME.fullmatch(found.ehlo):
        _refuse(f"ehlo of {host} is no host name")
    return found


def _tls(scheme: str, wanted: str, host: str) -> Tls:
    if scheme == "smtps":
        if wanted not in ("", Tls.REQUIRED):
            _refuse(f"smtps:// is TLS from the first byte: remove tls={wanted} of {host}")
        return Tls.IMPLICIT
    if wanted not in ("", Tls.REQUIRED, Tls.OPPORTUNISTIC, Tls.OFF):
        _refuse(f"tls of {host} is 'required', 'opportunistic' or 'off'")
    return Tls(wanted) if wanted else Tls.OPPORTUNISTIC


def _refuse(problem: str) -> NoReturn:
    raise Invalid(FIELD, problem)
