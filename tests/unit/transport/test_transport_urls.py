"""From a URL to a transport, or to one clear line."""

from pathlib import Path

import pytest

from postroom.domain.errors import Invalid
from postroom.transport.contract import TransportError
from postroom.transport.http.http_transport import HttpTransport
from postroom.transport.outbox_transport import OutboxTransport
from postroom.transport.registry import open_transport
from postroom.transport.smtp.smtp_transport import SmtpTransport


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("outbox:", OutboxTransport),
        ("outbox://", OutboxTransport),
        ("smtp://user:geheim@mx.test", SmtpTransport),
        ("smtps://mx.test,smtp://other.test", SmtpTransport),
        ("sendgrid://", HttpTransport),
        ("sendgrid://127.0.0.1:8025", HttpTransport),
    ],
)
async def test_a_url_opens_a_transport(url: str, kind: type, tmp_path: Path) -> None:
    transport = open_transport(url, folder=tmp_path, setting=lambda _: "SG.geheim")

    assert isinstance(transport, kind)
    assert "geheim" not in repr(transport)
    await transport.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "outbox",
        "outbox:/tmp/x",
        "mailto:a@example.com",
        "http://user:geheim@mx.test",
        "smtp://user:geheim@",
        "sendgrid://user:geheim@host",
        "sendgrid://host/path",
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        open_transport(url, folder=tmp_path, setting=lambda _: "SG.x")

    assert caught.value.field == "transport"
    assert "geheim" not in str(caught.value)


def test_sendgrid_without_a_key_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="POSTROOM_SENDGRID_API_KEY"):
        open_transport("sendgrid://", folder=tmp_path)


@pytest.mark.parametrize("key", ["SG.a\r\nX: y", "SG.gehe im", "SG.ü"])
def test_a_malformed_key_is_not_repeated(key: str, tmp_path: Path) -> None:
    with pytest.raises(TransportError) as caught:
        open_transport("sendgrid://", folder=tmp_path, setting=lambda _: key)

    assert key not in str(caught.value)
