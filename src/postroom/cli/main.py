"""The command `postroom`: its subcommands, and the one place where errors become exit statuses."""

from __future__ import annotations

import errno
import resource
import signal
import sys
from importlib import import_module
from typing import NoReturn

import click

from postroom import __version__
from postroom.cli.support.stopping import STOP_SIGNALS
from postroom.errors import PostroomError

# Heading → command → (where it is, what it does). A command is imported when it is used, so that
# `postroom --help` loads no engine and no transport; a test holds the texts to the commands' own.
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "up": ("operations.up:up", "Everything in one command: web, scheduler and host."),
        "web": ("operations.web:web", "Pages for administrators and subscribers, and the API."),
        "scheduler": (
            "operations.workers:scheduler",
            "Find messages that are due and make pages of them.",
        ),
        "sender": ("operations.workers:sender", "Take pages and send their emails."),
        "host": (
            "operations.host:host",
            "Start applications when messages arrive, stop them when idle.",
        ),
        "events": (
            "operations.events:events",
            "What happened by itself: messages done or paused, queues and applications in trouble.",
        ),
        "check": ("operations.check:check", "Settings, store and transport: does it work?"),
    },
    "Lists and messages": {
        "list": ("audience.lists:lists", "Mailing lists."),
        "subscriber": ("audience.subscribers:subscribers", "Who is on a list; import and export."),
        "message": (
            "messages.messages:messages",
            "Schedule messages and see what becomes of them.",
        ),
        "trace": ("audience.trace:trace", "What happened to one address."),
    },
    "Access": {
        "user": ("accounts.users:users", "Who may use the pages."),
        "apikey": ("accounts.api_keys:apikeys", "Keys for the API."),
    },
    "Host": {
        "app": ("queues.apps:apps", "Applications that queues activate."),
    },
    "Look into the store": {
        "queue": ("queues.queues:queues", "Queues and what waits in them."),
        "store": (
            "operations.stores:stores",
            "The store as a whole: move it to another engine, encrypt its secrets again.",
        ),
        "cost": (
            "operations.cost:cost",
            "What a month on Azure Storage costs, without the machines that send.",
        ),
        "table": ("operations.contents:tables", "Tables."),
        "blob": ("operations.contents:blobs", "Blobs, by container."),
    },
}
NOT_ENOUGH_MEMORY = (
    "not enough memory: raise the limit (ulimit -v, or that of the container) to at least 1 GB"
)
_LEAST_MEMORY = 256 * 1024 * 1024  # of addresses; with less, libraries fail or hang when loaded
_OUT_OF_MEMORY = ("failed to map segment", "annot allocate memory", "can't start new thread")

# What runs until it is stopped.
PARTS = frozenset({"up", "web", "scheduler", "sender", "host"})
_PLACES = {name: place for part in COMMANDS.values() for name, (place, _) in part.items()}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _PLACES:
            return None
        module, _, attribute = _PLACES[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"postroom.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, _PLACES))
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name.ljust(widest), told) for name, (_, told) in commands.items()]
                )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="postroom")
def postroom() -> None:
    """Run your own mailing lists.

    Postroom keeps lists of subscribers, and sends each message to every verified subscriber,
    once. It starts on one file and grows to many machines by changing one URL.
    """


def main() -> None:
    """Run the command line: exit status 0, 1 (it failed, one line says why) or 2 (wrong use).

    click itself handles wrong use. An error that is not ours is a fault in the code and keeps its
    traceback.
    """
    if sys.argv[1:2] and sys.argv[1] in PARTS:
        _end_well_when_stopped()
        _check_memory_limit()
    try:
        postroom(prog_name="postroom")
    except PostroomError as error:
        _fail(error)
    except (MemoryError, ImportError, RuntimeError, OSError) as error:
        if not _is_out_of_memory(error):
            raise
        _fail(NOT_ENOUGH_MEMORY)
    except BaseExceptionGroup as group:  # of parts that run side by side
        ours, others = group.split(PostroomError)
        if others is not None and others.subgroup(_is_memory_error) is not None:
            _fail(NOT_ENOUGH_MEMORY)
        if ours is None or others is not None:
            raise
        _fail(_first_of(ours))


def _end_well_when_stopped() -> None:
    """From the first moment on; as soon as there is something to finish, the part takes over."""
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: sys.exit(0))


def _check_memory_limit() -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST_MEMORY:
        _fail(NOT_ENOUGH_MEMORY)


def _is_memory_error(error: BaseException) -> bool:
    return isinstance(error, Exception) and _is_out_of_memory(error)


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory has run out, which libraries report in different ways."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _OUT_OF_MEMORY)


def _fail(error: object) -> NoReturn:
    """One line, whatever a driver or a mail server put into it."""
    click.echo(f"postroom: {' '.join(str(error).split())}", err=True)
    sys.exit(1)


def _first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
