"""The mail servers that a transport URL names, and how long each step may take with them.

    smtp://user:password@host:25?tls=required
    smtps://host,smtp://other:2525          several: the first that can be reached is used
    smtp://a?weight=3,smtp://b?weight=1     both, three to one: see `server_groups.py`

Credentials are percent-encoded, so a comma in one is `%2C`. No error repeats a password.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NoReturn
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from postroom.domain.audience.lists.lists import parse_list_name
from postroom.domain.errors import Invalid
from postroom.transport.smtp.replies import SmtpStage

_PORTS = {"smtp": 25, "smtps": 465}
_NOT_ENCODED = (
    "is not a valid URL: the port must be a number, and '@', ':', '/', ',' in a password must be"
    " written %40, %3A, %2F, %2C"
)
_NAME = re.compile(r"[A-Za-z0-9._\[\]:-]{1,255}")


class Tls(StrEnum):
    IMPLICIT = "implicit"
    """From the first byte (`smtps`, RFC 8314)."""

    REQUIRED = "required"
    """By STARTTLS; a server that does not offer it is not used."""

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
    weight: int = 0
    """Its share of the emails; 0: it is used while those before it cannot be."""
    lists: tuple[str, ...] = ()
    """The only lists whose emails it gets; none: all lists without a server."""
    connections: int = 0
    """Connections of each sender at most; 0: as many as the setting says."""
    emails_per_connection: int = 0
    """Then a new connection is opened; 0: never."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __repr__(self) -> str:
        return f"SmtpServer({self}, tls={self.tls})"  # a user name may be a token


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds. The long ones are the minimum that RFC 5321 4.5.3.2 demands of a client."""

    connect: float = 30.0
    """TCP and TLS; then another server is tried."""

    greeting: float = 300.0  # 4.5.3.2.1

    silence: float = 3.0
    """Then a server without a greeting is tested for TLS from the first byte."""

    command: float = 300.0  # 4.5.3.2.2 MAIL, 4.5.3.2.3 RCPT
    data: float = 120.0  # 4.5.3.2.4
    block: float = 180.0  # 4.5.3.2.5: a part of the mail that the server does not read
    content: float = 600.0  # 4.5.3.2.6: a shorter one causes duplicates

    quit: float = 2.0
    """For the reply to QUIT."""

    idle: float = 30.0
    """Then an unused connection is closed: well before a server would close it."""

    patience: float = 5.0
    """How long emails wait while no server can be reached, before they are held."""

    cancelled: float = 5.0
    """How long a cancelled `send` waits for replies to what was handed over."""

    def for_stage(self, stage: SmtpStage) -> float:
        if stage is SmtpStage.CONTENT:
            return self.content
        if stage is SmtpStage.DATA:
            return self.data
        return self.command

    @property
    def tick(self) -> float:
        """How often to check whether something has taken too long."""
        shortest = min(self.command, self.data, self.block, self.content, self.idle)
        return min(1.0, max(0.01, shortest / 4))


def parse_servers(urls: str) -> tuple[SmtpServer, ...]:
    """Return the servers of a comma-separated list of URLs; raise `Invalid`."""
    # Split only where a URL begins: parameters may contain commas, too.
    parts = re.split(r",\s*(?=[A-Za-z]+://)", urls.strip())
    servers = tuple(_parse_server(each.strip()) for each in parts)
    if all(each.lists for each in servers):
        _refuse("one mail server must be for all lists: remove its lists=")
    return servers


def _parse_server(url: str) -> SmtpServer:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        _refuse(_NOT_ENCODED)
    if "@" in parts.path + parts.fragment or ("@" in parts.query and "@" not in parts.netloc):
        _refuse(_NOT_ENCODED)  # part of a password would be taken for the host, and named below
    if parts.scheme not in _PORTS:
        _refuse(f"each mail server must begin with smtp:// or smtps://, not {parts.scheme!r}")
    if not host or not _NAME.fullmatch(host):
        _refuse("the mail server's host is missing or is not a host name")
    if parts.path not in ("", "/") or parts.fragment:
        _refuse(f"only '?' and parameters may follow the port of {host}")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(username) != bool(password):
        _refuse(f"the URL of {host} must have both a user and a password, or neither")
    if "\0" in username + password:
        _refuse(f"the user and the password for {host} must not contain a NUL character")
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
        weight=_whole_number(parameters.weight, "weight", 1_000, host),
        lists=tuple(_list_name(each, host) for each in parameters.lists.split()),
        connections=_whole_number(parameters.connections, "connections", 256, host),
        emails_per_connection=_whole_number(
            parameters.emails_per_connection, "emails_per_connection", 1_000_000, host
        ),
    )


class _Parameters(msgspec.Struct):
    tls: str = ""
    verify: str = "yes"
    ca: str = ""
    ehlo: str = ""
    weight: str = ""
    lists: str = ""
    connections: str = ""
    emails_per_connection: str = ""


def _whole_number(text: str, name: str, most: int, host: str) -> int:
    if not text:
        return 0
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= most:
        _refuse(f"{name} of {host} must be between 1 and {most:,}, not {text[:20]!r}")
    return int(text)


def _list_name(text: str, host: str) -> str:
    try:
        return parse_list_name(text)
    except Invalid as exc:
        raise Invalid("transport", f"lists of {host}: {exc.problem}") from exc


def _parameters(parts: SplitResult, host: str) -> _Parameters:
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = _Parameters.__struct_fields__
    for name in given:
        if name not in known:
            _refuse(f"parameters of {host} must be among {', '.join(known)}, not {name!r}")
    found = _Parameters(**given)
    if found.verify not in ("yes", "no"):
        _refuse(f"verify of {host} must be 'yes' or 'no', not {found.verify!r}")
    if found.ehlo and not _NAME.fullmatch(found.ehlo):
        _refuse(f"ehlo of {host} must be a host name, not {found.ehlo!r}")
    return found


def _tls(scheme: str, wanted: str, host: str) -> Tls:
    if scheme == "smtps":
        if wanted not in ("", Tls.REQUIRED):
            _refuse(f"smtps:// is TLS from the first byte: remove tls={wanted} of {host}")
        return Tls.IMPLICIT
    if wanted not in ("", Tls.REQUIRED, Tls.OPPORTUNISTIC, Tls.OFF):
        _refuse(f"tls of {host} must be 'required', 'opportunistic' or 'off', not {wanted!r}")
    return Tls(wanted) if wanted else Tls.OPPORTUNISTIC


def _refuse(problem: str) -> NoReturn:
    raise Invalid("transport", problem)
