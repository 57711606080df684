"""All transports, each registered once: settings, checks and wiring ask this module.

A transport is imported only when it is opened: most processes never send.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from postroom.domain.errors import Invalid
from postroom.transport.contract import Transport, TransportError

if TYPE_CHECKING:
    from postroom.transport.http.provider import HttpProvider


class TransportOptions(msgspec.Struct, frozen=True):
    """What the settings say about a transport."""

    url: str
    folder: Path
    """For emails that are kept instead of sent."""
    setting: Callable[[str], str]
    """Returns the value of a setting, such as `sendgrid_api_key`."""
    connections: int


class TransportKind(msgspec.Struct, frozen=True):
    prefixes: tuple[str, ...]
    """How its URLs begin."""
    open: Callable[[TransportOptions], Transport]
    """Raises `Invalid` for a wrong URL, `TransportError` for a missing key or package."""
    sends: bool = True


def _open_smtp(options: TransportOptions) -> Transport:
    from postroom.transport.smtp.server_groups import open_servers
    from postroom.transport.smtp.servers import parse_servers

    return open_servers(parse_servers(options.url), connections=options.connections)


def _open_sendgrid(options: TransportOptions) -> Transport:
    from postroom.transport.sendgrid import SendgridProvider

    return _open_http(SendgridProvider, options)


def _open_outbox(options: TransportOptions) -> Transport:
    from postroom.transport.outbox_transport import OutboxTransport

    _check_outbox(options.url)
    return OutboxTransport(options.folder)


def _check_outbox(url: str) -> None:
    if url.partition(":")[2].strip("/"):
        raise Invalid("transport", "must be only 'outbox:'; its folder is in the data folder")


KINDS: Final = (
    TransportKind(("smtp://", "smtps://"), _open_smtp),
    TransportKind(("sendgrid:",), _open_sendgrid),
    TransportKind(("outbox:",), _open_outbox, sends=False),
)
PREFIXES: Final = tuple(prefix for kind in KINDS for prefix in kind.prefixes)


def open_transport(
    url: str, *, folder: Path, setting: Callable[[str], str] = lambda _: "", connections: int = 8
) -> Transport:
    """Return the transport for a URL; nothing is connected yet (see `Transport.check`).

    Raises `Invalid` or `TransportError`; neither repeats a password.
    """
    url = url.strip()
    kind = _kind_of(url)
    if kind is None:
        raise Invalid("transport", f"must begin with one of {', '.join(PREFIXES)}")
    return kind.open(TransportOptions(url, folder, setting, connections))


def check_url(url: str) -> None:
    """Raise `Invalid` for a URL that cannot be used; connect to nothing."""
    from postroom.transport.smtp.servers import parse_servers

    if url.startswith(("smtp://", "smtps://")):
        parse_servers(url)
    elif url.startswith("outbox:"):
        _check_outbox(url)


def sends_mail(url: str) -> bool:
    """Return whether emails leave this machine, instead of being kept in the outbox."""
    kind = _kind_of(url.strip())
    return kind is None or kind.sends


def _kind_of(url: str) -> TransportKind | None:
    return next((each for each in KINDS if url.startswith(each.prefixes)), None)


def _open_http(provider: type[HttpProvider], options: TransportOptions) -> Transport:
    try:
        from postroom.transport.http.http_transport import HttpTransport
        from postroom.transport.http.provider import parse_base_url
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("postroom"):
            raise
        raise TransportError(
            f"{provider.scheme}:// needs a package that is not installed:"
            " pip install 'postroom[sendgrid]'"
        ) from exc
    setting = f"{provider.scheme}_api_key"
    api_key = options.setting(setting)
    if not api_key:
        raise TransportError(
            f"{provider.scheme}:// needs an API key: set POSTROOM_{setting.upper()}"
        )
    base_url = parse_base_url(provider, options.url.partition(":")[2])
    return HttpTransport(provider(api_key), base_url=base_url, connections=options.connections)
