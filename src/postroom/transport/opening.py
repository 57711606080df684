"""From a URL to a transport. The only module that knows all three."""

from __future__ import annotations

from pathlib import Path

from postroom.domain.errors import Invalid
from postroom.transport.contract import Transport, TransportError
from postroom.transport.outbox import OutboxTransport
from postroom.transport.smtp import SmtpTransport, parse_servers

FIELD = "transport"


def open_transport(
    url: str, *, folder: Path, sendgrid_api_key: str | None = None, connections: int = 8
) -> Transport:
    """The transport behind a URL; nothing is connected yet (see `Transport.check`).

    - `outbox:` keeps mails in `folder`
    - `smtp://user:password@host:port?tls=required`, `smtps://…`; several, separated by commas
    - `sendgrid://` with the API key; `sendgrid://host:port` for another address of its API

    `Invalid` says what is wrong with the URL, `TransportError` what is missing; neither repeats a
    password.
    """
    scheme, separator, rest = url.strip().partition(":")
    if scheme == "outbox" and separator:
        if rest.strip("/"):
            raise Invalid(FIELD, "outbox: takes no more words; its folder is in the data folder")
        return OutboxTransport(folder)
    if scheme in ("smtp", "smtps"):
        return SmtpTransport(parse_servers(url), connections=connections)
    if scheme == "sendgrid":
        return _open_sendgrid(rest, sendgrid_api_key, connections)
    shown = repr(scheme) if separator and scheme.isalpha() and len(scheme) < 16 else "no scheme"
    raise Invalid(
        FIELD, f"begins with one of smtp://, smtps://, sendgrid://, outbox: (found {shown})"
    )


def _open_sendgrid(rest: str, api_key: str | None, connections: int) -> Transport:
    try:
        from postroom.transport.sendgrid.transport import API, SendgridTransport, base_url_of
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("postroom"):
            raise
        raise TransportError(
            "sendgrid:// needs a package that is not installed: pip install 'postroom[sendgrid]'"
        ) from exc
    if not api_key:
        raise TransportError("sendgrid:// needs an API key: set POSTROOM_SENDGRID_API_KEY")
    base_url = base_url_of(rest) if rest.strip("/") else API
    return SendgridTransport(api_key, base_url=base_url, connections=connections)
