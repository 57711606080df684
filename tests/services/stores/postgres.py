"""A PostgreSQL server of our own."""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg

from tests.services.missing import require
from tests.services.process import ServiceProcess, as_user, folder_for, unprivileged
from tests.services.waiting import LOOPBACK, free_ports

SUPERUSER = "postgres"
GUARDED_USER = "guarded"
GUARDED_PASSWORD = "open/sesame@home"  # has to be escaped in a URL, as good passwords do

# Connections from this machine need no password, except for one user.
ACCESS_RULES = f"""\
host all {GUARDED_USER} {LOOPBACK}/32 scram-sha-256
host all {SUPERUSER} {LOOPBACK}/32 trust
host replication {SUPERUSER} {LOOPBACK}/32 trust
"""

SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
}

# A crash of the machine is not what the tests are about.
FAST = {"fsync": "off", "full_page_writes": "off"}

# As on a production server: what is committed survives a crash of the machine.
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

# With a limit in milliseconds it returns when they have ended: what they hold is free.
END_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server. Databases are made one by one, so that tests cannot see each other."""

    port: int
    _process: ServiceProcess
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _emptied: list[str] = field(default_factory=list)

    def url(self, database: str) -> str:
        """Return the address of a database for the superuser, who needs no password."""
        return f"postgresql://{SUPERUSER}@{LOOPBACK}:{self.port}/{database}"

    def guarded_url(self, database: str, password: str = GUARDED_PASSWORD) -> str:
        """Return the address of a database for the user whose password is checked."""
        credentials = f"{GUARDED_USER}:{quote(password, safe='')}"
        return f"postgresql://{credentials}@{LOOPBACK}:{self.port}/{database}"

    def create_database(self) -> str:
        """Make an empty database and return its address."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database of `create_database`, even if there are connections to it."""
        self.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    @contextmanager
    def empty_database(self) -> Iterator[str]:
        """Lend a database without a store; empty it afterwards and lend it again.

        Emptying takes a quarter of the work of creating one. A test that changes more than the
        store in it needs `create_database`.
        """
        url = self._emptied.pop() if self._emptied else self.create_database()
        yield url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(END_OTHERS)
            connection.execute("SET client_min_messages = error")
            connection.execute("DROP SCHEMA IF EXISTS postroom CASCADE")
        self._emptied.append(url)

    def execute(self, statement: str) -> None:
        """Run one statement as the superuser, outside of every test's database."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Start the server after `stop`, on the same port with the same data."""
        self._process.start()

    def stop(self, *, immediate: bool = False) -> None:
        """Stop the server: connections are ended and transactions rolled back.

        `immediate` is what a crash looks like: nothing is tidied, the next start recovers.
        """
        self._process.stop(signal.SIGQUIT if immediate else signal.SIGINT)

    def restart(self, *, immediate: bool = False) -> None:
        """Stop and start the server."""
        self.stop(immediate=immediate)
        self.start()

    def back_up(self) -> None:
        """Copy the data of the running server: a standby that then falls behind."""
        command = [program("pg_basebackup"), "--pgdata", str(self._process.folder / "copy")]
        command += ["--host", LOOPBACK, "--port", str(self.port), "--username", SUPERUSER]
        command += ["--checkpoint", "fast", "--wal-method", "stream", "--no-sync"]
        user = as_user(self._process.user)
        subprocess.run(command, cwd=self._process.folder, check=True, capture_output=True, **user)

    def fail_over(self, *, promote: bool) -> None:
        """Crash, and start the copy in place of the server: as a standby that is promoted, with its
        own timeline, or just as it is."""
        self._crash_and_use_copy(standby=promote)
        if promote:
            self.promote()

    def fail_over_to_standby(self) -> None:
        """Crash, and start the copy in place of the server, as a standby that can only be read."""
        self._crash_and_use_copy(standby=True)

    def promote(self) -> None:
        """Promote the standby, whose connections stay open."""
        self.execute("SELECT pg_promote()")

    def _crash_and_use_copy(self, *, standby: bool) -> None:
        self.stop(immediate=True)
        data, copy = (self._process.folder / name for name in ("data", "copy"))
        data.rename(data.with_name("lost"))
        copy.rename(data)
        if standby:
            (data / "standby.signal").touch()
        self.start()


@contextmanager
def running_postgres(*, durable: bool = False) -> Iterator[PostgresServer]:
    """Start a new server with empty data and stop it in the end.

    `durable`: it waits for the disk at every commit. Benchmarks need that; tests do not.
    """
    binaries = _find_binaries()
    if binaries is None:
        require("PostgreSQL server", "apt-get install postgresql")
    user = unprivileged("postgres")
    [port] = free_ports(1)
    settings = SETTINGS | (DURABLE if durable else FAST)
    with folder_for("postgres", user) as folder:
        data = folder / "data"
        _make_cluster(binaries, data, user)
        server = PostgresServer(port, _server_process(binaries, data, port, user, settings))
        server.start()
        try:
            server.execute(
                f"CREATE ROLE {GUARDED_USER} LOGIN SUPERUSER PASSWORD '{GUARDED_PASSWORD}'"
            )
            yield server
        finally:
            server.stop(immediate=True)


def program(name: str) -> str:
    """Return the path of a program that comes with the server, such as `pg_dump`."""
    binaries = _find_binaries()
    if binaries is None:
        require("PostgreSQL server", "apt-get install postgresql")
    return str(binaries / name)


def _find_binaries() -> Path | None:
    """Return the folder with `initdb` and `postgres`: Debian keeps it off the PATH."""
    on_debian = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest_last = sorted(on_debian, key=lambda initdb: float(initdb.parent.parent.name))
    if newest_last:
        return newest_last[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _make_cluster(binaries: Path, data: Path, user: str | None) -> None:
    command = [str(binaries / "initdb"), "--pgdata", str(data), "--username", SUPERUSER]
    command += ["--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"]
    if _major_version(binaries) >= 15:
        # Text in dictionary order, as on many real servers: code that relies on the order of
        # bytes without requesting it fails.
        command += ["--locale-provider", "icu", "--icu-locale", "en-US"]
    made = subprocess.run(command, cwd=data.parent, capture_output=True, text=True, **as_user(user))
    if made.returncode != 0:
        raise RuntimeError(f"initdb failed: {made.stdout}{made.stderr}")
    (data / "pg_hba.conf").write_text(ACCESS_RULES)


def _major_version(binaries: Path) -> int:
    printed = subprocess.check_output([binaries / "initdb", "--version"], text=True)
    found = re.search(r"\d+", printed)
    assert found, f"no version in {printed!r}"
    return int(found[0])


def _server_process(
    binaries: Path, data: Path, port: int, user: str | None, settings: Mapping[str, str]
) -> ServiceProcess:
    command = [str(binaries / "postgres"), "-D", str(data), "-p", str(port)]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    return ServiceProcess(
        name="PostgreSQL",
        command=command,
        folder=data.parent,
        is_ready=lambda: _answers(port),
        user=user,
    )


def _answers(port: int) -> bool:
    """Whether the server takes connections: while it recovers it listens but refuses."""
    try:
        with psycopg.connect(f"postgresql://{SUPERUSER}@{LOOPBACK}:{port}/postgres"):
            return True
    except psycopg.OperationalError:
        return False
