"""The fields of the page Mail server, and the URL in the setting `transport` that they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from postroom.domain.errors import Incomplete, Invalid
from postroom.settings import check_stored
from postroom.transport.smtp.servers import SmtpServer, Tls, parse_servers

ENCRYPTIONS: Final = {
    "starttls": "STARTTLS, usually port 587",
    "tls": "TLS, usually port 465",
    "auto": "STARTTLS if the server offers it",
    "none": "None, for a server on this machine",
}
_TLS: Final = {
    "starttls": Tls.REQUIRED,
    "tls": Tls.IMPLICIT,
    "auto": Tls.OPPORTUNISTIC,
    "none": Tls.OFF,
}
_STRENGTHS: Final = {Tls.OFF: 0, Tls.OPPORTUNISTIC: 1, Tls.REQUIRED: 2, Tls.IMPLICIT: 2}
_BY_TLS: Final = {tls: name for name, tls in _TLS.items()}
_HOST: Final = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*"
)
_LONGEST: Final = {"user": 200, "password": 300}


class ServerForm(msgspec.Struct, frozen=True):
    """The fields as someone typed them."""

    host: str = ""
    port: str = "587"
    encryption: str = "starttls"
    user: str = ""
    password: str = ""
    accepts_any: bool = False
    """Whether a certificate that cannot be verified is accepted."""


def parse_single(url: str) -> SmtpServer | None:
    """Return the server of a URL, or None if it names none, or several."""
    try:
        servers = parse_servers(url)
    except Invalid:
        return None
    return servers[0] if len(servers) == 1 else None


def form_of(server: SmtpServer) -> ServerForm:
    """Return the fields of a server, without its password."""
    return ServerForm(
        host=server.host,
        port=str(server.port),
        encryption=_BY_TLS[server.tls],
        user=server.username,
        accepts_any=not server.verify,
    )


def checked_url(form: ServerForm, before: SmtpServer | None) -> str:
    """Return the URL to store. Raise `Incomplete` with what is wrong, by field.

    Without a password, that of the server `before` is kept, if it is sent to the same place and
    is protected as well as before.
    """
    problems = dict(_problems(form))
    is_same = before is not None and (form.host, form.user) == (before.host, before.username)
    keeps_password = before is not None and is_same and _is_as_safe(form, before)
    kept = before.password if before is not None and keeps_password else ""
    password = form.password or kept
    if form.user and not password and "password" not in problems:
        again = before is not None and bool(before.password)
        problems["password"] = (
            "must be entered again, because the server, the user name or the encryption has changed"
            if again
            else "must not be empty"
        )
    if form.password and not form.user:
        problems["user"] = "must not be empty if there is a password"
    if problems:
        raise Incomplete(problems)
    server = SmtpServer(
        host=form.host,
        port=int(form.port),
        tls=_TLS[form.encryption],
        username=form.user,
        password=password,
        verify=not form.accepts_any,
        ca_file=before.ca_file if before is not None and is_same else "",
        ehlo=before.ehlo if before is not None and is_same else "",
        connections=before.connections if before is not None and is_same else 0,
        emails_per_connection=(
            before.emails_per_connection if before is not None and is_same else 0
        ),
    )
    try:
        return check_stored("transport", server_url(server))
    except Invalid as exc:
        raise Incomplete({"password": exc.problem}) from exc


def _is_as_safe(form: ServerForm, before: SmtpServer) -> bool:
    """Return whether a password goes to the same port, and nobody on the way can read it who could
    not do so before."""
    strength = _STRENGTHS[_TLS.get(form.encryption, Tls.OFF)]
    is_verified = not form.accepts_any or not before.verify
    return form.port == str(before.port) and is_verified and strength >= _STRENGTHS[before.tls]


def server_url(server: SmtpServer) -> str:
    """Return the URL that names this server."""
    scheme = "smtps" if server.tls is Tls.IMPLICIT else "smtp"
    login = (
        f"{quote(server.username, safe='')}:{quote(server.password, safe='')}@"
        if server.username
        else ""
    )
    parameters = {
        "tls": server.tls.value if server.tls in (Tls.REQUIRED, Tls.OFF) else "",
        "verify": "" if server.verify else "no",
        "ca": server.ca_file,
        "ehlo": server.ehlo,
        "connections": str(server.connections or ""),
        "emails_per_connection": str(server.emails_per_connection or ""),
    }
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{scheme}://{login}{server}" + (f"?{query}" if query else "")


def _problems(form: ServerForm) -> Mapping[str, str]:
    problems: dict[str, str] = {}
    if not form.host:
        problems["host"] = "must not be empty"
    elif not _HOST.fullmatch(form.host):
        shown = form.host[:60] if form.host.isprintable() else "one with control characters"
        problems["host"] = f"must be a host name such as smtp.example.com, not {shown}"
    if not re.fullmatch(r"[0-9]{1,5}", form.port, re.ASCII) or not 1 <= int(form.port) <= 65535:
        problems["port"] = f"must be between 1 and 65535, not {form.port[:20] or 'empty'}"
    if form.encryption not in ENCRYPTIONS:
        problems["encryption"] = "must be one of the choices"
    for name, most in _LONGEST.items():
        text = getattr(form, name)
        if len(text) > most:
            problems[name] = f"must have at most {most} characters, not {len(text):,}"
        elif not text.isprintable():
            problems[name] = "must not contain control characters"
    return problems
