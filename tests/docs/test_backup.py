"""A backup made as docs/guides/backup.md says, while the store is open, brings everything back."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from postroom.storage import open_store
from tests.services.postroom import CommandLine
from tests.services.stores.postgres import PostgresServer, program

GUIDE = Path(__file__).parents[2] / "docs/guides/backup.md"


async def test_sqlite(tmp_path: Path) -> None:
    line = CommandLine(tmp_path)
    before = _fill(line)
    database = tmp_path / "postroom-data/postroom.db"
    async with await open_store(f"sqlite:///{database}"):
        _run(_command("python3 -m apsw"), {"python3": sys.executable}, tmp_path)
    line.ok("subscriber", "remove", "newsletter", "ann@example.com")

    shutil.copy(tmp_path / "copy.db", database)
    for name in ("postroom.db-wal", "postroom.db-shm"):
        database.with_name(name).unlink(missing_ok=True)

    assert _export(line) == before


async def test_postgres(tmp_path: Path, postgres: PostgresServer) -> None:
    url, empty = postgres.create_database(), postgres.create_database()
    line = CommandLine(tmp_path, {"POSTROOM_STORE": url})
    before = _fill(line)
    async with await open_store(url):
        _run(_command("pg_dump"), {"pg_dump": program("pg_dump"), "postroom": url}, tmp_path)

    restore = _command("pg_restore").replace("=postroom", f"={empty}")
    _run(restore, {"pg_restore": program("pg_restore")}, tmp_path)

    assert _export(CommandLine(tmp_path, {"POSTROOM_STORE": empty})) == before


def _fill(line: CommandLine) -> str:
    line.ok("list", "create", "newsletter", "--description", "News", "--from", "n@example.com")
    line.ok("subscriber", "add", "newsletter", "ann@example.com", "--verified")
    (line.folder / "news.txt").write_text("News")
    line.ok("message", "create", "newsletter", "--subject", "News", "--text", "news.txt")
    return _export(line)


def _export(line: CommandLine) -> str:
    return line.ok("subscriber", "export", "newsletter") + line.ok("message", "ls", "--json")


def _command(beginning: str) -> str:
    """Return the command of the guide that begins like this."""
    [found] = re.findall(rf"`({re.escape(beginning)} [^`]*)`", GUIDE.read_text())
    return str(found)


def _run(command: str, instead: Mapping[str, str], folder: Path) -> None:
    """Run a command of the guide, with names of this machine instead of the guide's."""
    words = [instead.get(word, word) for word in shlex.split(command)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
