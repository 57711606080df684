"""What is shown of a URL that lets somebody in, however it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from postroom.domain.errors import Invalid
from postroom.settings import SettingError, load_settings
from postroom.settings.parsing import masked
from postroom.transport.smtp.servers import parse_servers

SECRETS = ("hunter2", "SG-token")
HOSTILE = [
    "smtp://SG-token:hunter2@mail.example",
    "smtp:/u:hunter2@h",
    "smtp:u:hunter2@h",
    "smtp:///u:hunter2@h",
    "smtp://u:hunter2@h@h2",
    "smtp://u:p,b:/hunter2@h",
    "smtp://u:pa@b,smtp://hunter2@h",
    "smtp://u:pa/hunter2@h",
    "smtp://SG-token@h",
    "smtp://SG-token/hunter2@h",
    "smtp://SG-token?hunter2@h",
    "SMTP://u:hunter2@h",
    "u:hunter2@h",
    "smtp://u:hunter2",
    "smtp:/u:hunter2",
    "smtp://a:b@h1,smtps://c:hunter2@h2",
    "postgresql://ann:hunter2@host/db?sslpassword=hunter2",
    "postgresql://host/db?user=ann&password=hunter2",
    "https://hunter2@collector.example/v1",
    "smtp://u:hunter2\n@h",
]


@pytest.mark.parametrize("url", HOSTILE)
def test_no_credential_of_a_url_is_shown(url: str, tmp_path: Path) -> None:
    assert not any(secret in masked(url) for secret in SECRETS), masked(url)
    for name in ("transport", "store"):
        try:
            found = load_settings({f"POSTROOM_{name.upper()}": url}, tmp_path)
            text = found.found[name].shown
        except SettingError as exc:
            text = str(exc)
        assert not any(secret in text for secret in SECRETS), text
    try:
        text = repr(parse_servers(url))
    except Invalid as exc:
        text = str(exc)
    assert not any(secret in text for secret in SECRETS), text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("smtp://u:p@mail.example:587?tls=required", "smtp://●●●@mail.example:587?tls=required"),
        ("smtp://a:b@h1,smtps://c:d@h2", "smtp://●●●@h1,smtps://●●●@h2"),
        ("smtp://h1:25,smtp://a:b@h2", "smtp://h1:25,smtp://●●●@h2"),
        ("smtp://mail.example:25", "smtp://mail.example:25"),
        ("smtp://[::1]:25", "smtp://[::1]:25"),
        ("outbox:", "outbox:"),
        ("sendgrid://", "sendgrid://"),
        ("sqlite:////srv/post:room.db", "sqlite:////srv/post:room.db"),
        ("sqlite:///C:/data/postroom.db", "sqlite:///C:/data/postroom.db"),
        ("postgresql://ann:x@host/db", "postgresql://●●●@host/db"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("https://lists.example:8443/mail", "https://lists.example:8443/mail"),
    ],
)
def test_the_rest_is_shown(url: str, shown: str) -> None:
    assert masked(url) == shown
