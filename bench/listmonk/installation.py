"""One installation of listmonk: a database, its settings, a list and a campaign.

It is set up in its tables, not through its API, which differs from version to version.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench.listmonk.program import Listmonk
from bench.mail import content
from tests.services.waiting import LOOPBACK, free_ports

_INSTALL_SECONDS = 60
_STOP_SECONDS = 30
_UNSUBSCRIBE = "{{ UnsubscribeURL . }}"
_OVERHEAD = 1200  # bytes of its headers, borders and links: its emails are as large as ours

# Nothing limits it: the rate is per worker and second.
_MESSAGE_RATE = 100_000


@dataclass(frozen=True)
class Tuning:
    """There are as many SMTP connections as workers; `batch` is how many subscribers it reads at a
    time."""

    workers: int
    batch: int

    def __str__(self) -> str:
        return f"{self.workers} workers, batches of {self.batch:,}"


CANDIDATES = (Tuning(10, 10_000), Tuning(20, 5_000), Tuning(50, 10_000))
"""The best settings of many that were tried; which one is fastest depends on the machine."""

DEFAULT_BATCH = Tuning(10, 1_000)
"""The defaults, except that its message rate does not limit it."""


class Installation:
    def __init__(self, listmonk: Listmonk, url: str, folder: Path) -> None:
        """Install into the empty database at `url`; `folder` is for its settings and log."""
        self._listmonk = listmonk
        self._url = url
        self._folder = folder
        self._config = folder / "listmonk.toml"
        [port] = free_ports(1)
        server = conninfo_to_dict(url)
        database = {
            "host": server["host"],
            "user": server["user"],
            "password": "none",  # an empty one would swallow the next word of its connection string
            "database": server["dbname"],
            "ssl_mode": "disable",
            "max_lifetime": "300s",
        }
        lines = ["[app]", f'address = "{LOOPBACK}:{port}"', "[db]", f"port = {server['port']}"]
        lines += ["max_open = 25", "max_idle = 25"]
        lines += [f'{key} = "{value}"' for key, value in database.items()]
        self._config.write_text("\n".join(lines) + "\n")
        self._run("--install", "--yes")

    def release(self) -> str:
        """Return the release that last changed its tables."""
        with psycopg.connect(self._url) as connection:
            row = connection.execute(
                "SELECT value FROM settings WHERE key = 'migrations'"
            ).fetchone()
        assert row, "no migrations"
        return str(row[0][-1])

    def set_up(self, port: int, tuning: Tuning, recipients: int, kilobytes: int) -> None:
        """Create a list and a campaign to it that starts when the program sees it."""
        with psycopg.connect(self._url) as connection:
            for key, value in _settings(port, tuning).items():
                connection.execute(
                    "UPDATE settings SET value = %s WHERE key = %s", (json.dumps(value), key)
                )
            connection.execute("TRUNCATE subscribers, lists, campaigns, templates CASCADE")
            connection.execute(
                "INSERT INTO lists (id, uuid, name, type, optin)"
                " VALUES (1, gen_random_uuid(), 'contoso1', 'private', 'single')"
            )
            connection.execute(
                "INSERT INTO subscribers (id, uuid, email, name)"
                " SELECT n + 1, gen_random_uuid(),"
                "  'user' || lpad(n::text, 7, '0') || '@example.com', ''"
                " FROM generate_series(0, %s) AS n",
                (recipients - 1,),
            )
            connection.execute(
                "INSERT INTO subscriber_lists (subscriber_id, list_id, status)"
                " SELECT id, 1, 'confirmed' FROM subscribers"
            )
            _create_campaign(connection, kilobytes)
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("ANALYZE")

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start the program, and stop it at the end unless it was killed."""
        with (self._folder / "listmonk.log").open("ab") as log:
            process = subprocess.Popen(
                self._command(), cwd=self._listmonk.folder, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait_until_finished(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        """Wait until the campaign has the status `finished`."""
        deadline = time.monotonic() + seconds
        with psycopg.connect(self._url, autocommit=True) as connection:
            while True:
                row = connection.execute("SELECT status::text FROM campaigns").fetchone()
                if row == ("finished",):
                    return
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"listmonk did not finish: {row}, see {self._folder}")
                time.sleep(0.1)

    def _command(self, *arguments: str) -> list[str]:
        return [str(self._listmonk.program), "--config", str(self._config), *arguments]

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            self._command(*arguments),
            cwd=self._listmonk.folder,
            env={**os.environ},
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"listmonk {' '.join(arguments)}: {done.stdout}{done.stderr}")


def _settings(port: int, tuning: Tuning) -> dict[str, object]:
    server = {
        "enabled": True,
        "host": LOOPBACK,
        "port": port,
        "auth_protocol": "none",
        "username": "",
        "password": "",
        "hello_hostname": "",
        "max_conns": tuning.workers,
        "idle_timeout": "15s",
        "wait_timeout": "5s",
        "max_msg_retries": 2,
        "tls_enabled": False,  # up to version 1
        "tls_type": "none",  # since then
        "tls_skip_verify": True,
        "email_headers": [],
    }
    return {
        "app.concurrency": tuning.workers,
        "app.message_rate": _MESSAGE_RATE,
        "app.batch_size": tuning.batch,
        "app.check_updates": False,
        "app.notify_emails": [],
        "privacy.individual_tracking": False,
        "smtp": [server],
    }


def _create_campaign(connection: psycopg.Connection, kilobytes: int) -> None:
    both = content.bodies(kilobytes, _OVERHEAD)
    assert both.html
    html = both.html.replace("</body>", f'<a href="{_UNSUBSCRIBE}">Unsubscribe</a></body>')
    connection.execute(
        "INSERT INTO templates (id, name, body, is_default) VALUES (1, 'plain', %s, true)",
        ('{{ template "content" . }}',),
    )
    connection.execute(
        "INSERT INTO campaigns (id, uuid, name, subject, from_email, body, altbody, content_type,"
        "  status, messenger, template_id)"
        " VALUES (1, gen_random_uuid(), 'News', 'News', %s, %s, %s, 'html', 'running', 'email', 1)",
        (content.FROM, html, f"{both.text}\nUnsubscribe: {_UNSUBSCRIBE}\n"),
    )
    connection.execute("INSERT INTO campaign_lists (campaign_id, list_id) VALUES (1, 1)")
