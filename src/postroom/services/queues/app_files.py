"""Applications in `postroom.toml`, and whether applications can run on this machine."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.queues.app_options import common_variables
from postroom.domain.queues.apps import App, parse_app
from postroom.domain.queues.queue_names import segments
from postroom.errors import PostroomError

_SECTION = "apps"
_ANY_SECTION = re.compile(r"\s*\[")
_APPS_SECTION = re.compile(r"\s*\[\[\s*apps\s*\]\]")


class AppFileError(PostroomError):
    """A file that declares applications and cannot be used; the text names file and line."""


def origin_of(path: Path) -> str:
    """Return the origin of the applications in a file of this machine."""
    return f"{socket.gethostname()}:{path.resolve()}"


def read_apps_file(path: Path) -> list[App]:
    """Return the `[[apps]]` of a file; none if there is no file. `AppFileError`.

    Handlers are imported in a separate process, to check them.
    """
    try:
        text = path.read_text()
        content = tomllib.loads(text)
    except FileNotFoundError:
        return []
    except tomllib.TOMLDecodeError as exc:
        raise AppFileError(_syntax_error(path, exc)) from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise AppFileError(f"{path.name}: {exc}") from exc
    lines = _Lines(path.name, text)
    apps = _parsed(content.get(_SECTION, []), path, lines)
    for number, problem in problems_of(apps).items():
        raise lines.error(number, problem.field, problem)
    return apps


def _parsed(tables: object, path: Path, lines: _Lines) -> list[App]:
    if not isinstance(tables, list) or not all(isinstance(each, Mapping) for each in tables):
        raise AppFileError(f"{path.name}: applications must be in sections [[apps]]")
    apps: list[App] = []
    first: dict[tuple[str, ...], int] = {}
    for number, values in enumerate(tables):
        try:
            app = parse_app(values, folder=str(path.resolve().parent), origin=origin_of(path))
        except Invalid as exc:
            raise lines.error(number, exc.field, exc) from exc
        same = first.setdefault(segments(app.path), number)
        if same != number:
            where = lines.find(same, "path")
            raise lines.error(number, "path", f"{app.path} is already used in line {where}")
        apps.append(app)
    return apps


class _Lines:
    """Line numbers in a file, which the parser does not give."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._lines = text.splitlines()
        self._sections = [n for n, line in enumerate(self._lines) if _APPS_SECTION.match(line)]

    def find(self, section: int, key: str) -> int:
        """Return the line of a key in a section, or of the section without it."""
        if section >= len(self._sections):
            return 1  # written as one list: `apps = [{…}]`
        start = self._sections[section]
        of_key = re.compile(rf"""\s*(["']?){re.escape(key)}\1\s*=""")
        for number in range(start + 1, len(self._lines)):
            if _ANY_SECTION.match(self._lines[number]):
                break
            if of_key.match(self._lines[number]):
                return number + 1
        return start + 1

    def error(self, section: int, key: str, problem: object) -> AppFileError:
        return AppFileError(f"{self._name}, line {self.find(section, key)}: {problem}")


def _syntax_error(path: Path, exc: tomllib.TOMLDecodeError) -> str:
    found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", str(exc), re.DOTALL)
    if found is None:
        return f"{path.name}: {exc}"
    return f"{path.name}, line {found[2]}: {found[1]}"


_IMPORT_SECONDS = 60.0

# Importing a handler runs foreign code, so it happens in a separate process, which runs this. It
# imports the handlers one by one and writes a line of JSON for each: "" or the problem. What the
# modules print goes to standard error.
_TRIAL = """
import importlib, inspect, json, os, sys
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
common = dict(os.environ)
for folder, handler, environment in json.load(sys.stdin):
    try:
        os.environ.clear()
        os.environ.update(common, **environment)
        if folder:
            os.chdir(folder)
            sys.path.insert(0, folder)
        module, _, name = handler.partition(":")
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        problem = "" if callable(found) else "it is not callable"
        for each in (found, getattr(found, "__call__", None)):
            if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
                problem = "it is a generator function, which does nothing when called: remove yield"
    except BaseException as error:
        problem = f"{type(error).__name__}: {error}"
    finally:
        if folder and folder in sys.path:
            sys.path.remove(folder)
    print(json.dumps(problem), file=answers)
"""


def problems_of(apps: Sequence[App]) -> dict[int, Invalid]:
    """Return the problems of applications that cannot run on this machine, by position."""
    problems: dict[int, Invalid] = {}
    handlers = [(number, app) for number, app in enumerate(apps) if app.handler]
    for (number, app), problem in zip(
        handlers, _handler_problems([a for _, a in handlers]), strict=True
    ):
        if problem:
            problems[number] = Invalid(
                "handler", f"{app.handler!r} cannot be imported from {_folder(app)}: {problem}"
            )
    for number, app in enumerate(apps):
        if app.command and not _is_program(app):
            problems[number] = Invalid(
                "command", f"there is no program {app.command[0]!r} (searched from {_folder(app)})"
            )
        if app.user and (problem := _user_problem(app.user)):
            problems[number] = Invalid("user", problem)
    return dict(sorted(problems.items()))


def _handler_problems(apps: Sequence[App]) -> list[str]:
    """Return the problem of each handler, or an empty text."""
    if not apps:
        return []
    wanted = msgspec.json.encode([(app.folder, app.handler, app.environment) for app in apps])
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-P", "-c", _TRIAL],
            input=wanted,
            env=common_variables(os.environ),
            capture_output=True,
            timeout=_IMPORT_SECONDS,
            check=False,
        )
        output, end = done.stdout, f"the process ended with status {done.returncode}"
    except subprocess.TimeoutExpired as exc:
        output, end = exc.stdout or b"", f"it takes longer than {_IMPORT_SECONDS:.0f} seconds"
    answers = [str(msgspec.json.decode(line)) for line in output.splitlines()]
    missing = len(apps) - len(answers)
    # The first handler without an answer ended the process; those after it were not imported.
    return [
        *answers,
        *([f"while it was imported, {end}"] if missing else []),
        *[""] * (missing - 1),
    ]


def _user_problem(user: str) -> str:
    try:
        wanted = pwd.getpwnam(user).pw_uid
    except KeyError:
        return f"this machine has no user {user!r}"
    if os.geteuid() not in (0, wanted):
        return f"only a host that runs as root can start processes of {user}"
    return ""


def _is_program(app: App) -> bool:
    name = app.command[0]
    if "/" not in name:
        return shutil.which(name) is not None
    program = Path(app.folder, name)
    return program.is_file() and os.access(program, os.X_OK)


def _folder(app: App) -> str:
    return app.folder or "this folder"
