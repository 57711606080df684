"""Applications in `postroom.toml`: read and checked; errors name their line."""

from __future__ import annotations

import re
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path

from postroom.domain.errors import Invalid
from postroom.domain.queues.apps import App, parse_app
from postroom.domain.queues.queue_names import segments
from postroom.errors import PostroomError
from postroom.services.queues.handler_checks import problems_of

_SECTION = "apps"
_ANY_SECTION = re.compile(r"\s*\[")
_APPS_SECTION = re.compile(r"\s*\[\[\s*apps\s*\]\]")


class AppFileError(PostroomError):
    """A file of applications that cannot be used; the text names file and line."""


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
        raise AppFileError(f"{path.name}: applications must be sections [[apps]]")
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
