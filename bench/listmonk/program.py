"""Fetches listmonk as a Go module and builds it, once, into `build/`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MODULE = "github.com/knadh/listmonk"

VERSION = "v1.1.0"
"""The newest release that Go can fetch by its name. Later ones, whose names do not fit the module's
path, are fetched by commit or pseudo-version: `--listmonk VERSION`."""

_BUILD = Path(__file__).parents[2] / "build/bench"
_FETCH_SECONDS, _BUILD_SECONDS = 600, 1800


class Skipped(Exception):
    """The comparison cannot be made here; the text says why."""


@dataclass(frozen=True)
class Listmonk:
    """The built program, in a folder with the files that it reads when it starts."""

    program: Path
    folder: Path


def build(version: str = VERSION) -> Listmonk:
    """Return this version of listmonk, building it if necessary. `Skipped`."""
    folder = _BUILD / f"listmonk-{version}"
    program = folder / "listmonk"
    if not program.exists():
        go = _find_go()
        fetched = _fetch(go, version)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(fetched, folder, copy_function=_copy)
        for each in (folder, *folder.rglob("*/")):
            each.chmod(0o755)
        _add_stub_of_front_end(folder)
        _run([go, "build", "-o", str(program), "./cmd"], folder, _BUILD_SECONDS, "build")
    return Listmonk(program, folder)


def _find_go() -> str:
    go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    if go is None:
        raise Skipped("There is no `go` on this machine.")
    return go


def _fetch(go: str, version: str) -> Path:
    """Return the folder of Go's module cache with the source."""
    _BUILD.mkdir(parents=True, exist_ok=True)
    command = [go, "mod", "download", "-json", f"{MODULE}@{version}"]
    found = json.loads(_run(command, _BUILD, _FETCH_SECONDS, "fetch"))
    return Path(found["Dir"])


def _run(command: list[str], folder: Path, seconds: float, what: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode != 0:
        raise Skipped(f"`go` could not {what} {MODULE}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _copy(source: str, target: str) -> None:
    """Copy a file without its mode: Go's cache is read-only."""
    shutil.copyfile(source, target)


def _add_stub_of_front_end(folder: Path) -> None:
    """Add empty pages: the module does not contain its front end, which is not used here."""
    pages = folder / "frontend/dist"
    (pages / "frontend").mkdir(parents=True, exist_ok=True)
    for name in ("index.html", "favicon.png", "frontend/index.html"):
        (pages / name).touch()
