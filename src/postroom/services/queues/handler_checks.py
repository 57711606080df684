"""Checks whether the handlers, programs and users of applications exist.

Importing a handler runs foreign code, so it happens in a separate process.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.queues.apps import App
from postroom.domain.queues.environments import common_variables

_SECONDS = 60.0

# Imports the handlers one by one and writes a line of JSON for each: "" or the problem. What the
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
            timeout=_SECONDS,
            check=False,
        )
        output, end = done.stdout, f"the process ended with status {done.returncode}"
    except subprocess.TimeoutExpired as exc:
        output, end = exc.stdout or b"", f"it takes longer than {_SECONDS:.0f} seconds"
    answers = [str(msgspec.json.decode(line)) for line in output.splitlines()]
    missing = len(apps) - len(answers)
    # The first without an answer ended the process; those after it were not imported.
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
