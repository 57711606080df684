"""The command `postroom`: its subcommands, and the one place that turns errors into statuses."""

from __future__ import annotations

import errno
import resource
import signal
import sys
from importlib import import_module
from typing import NoReturn

import click

from postroom import __version__
from postroom.cli.support.stopping import stop_signals
from postroom.errors import PostroomError

# Heading → command → (module and function, summary). A command is imported when it is used, so that
# `postroom --help` is quick; a test compares the summaries with the commands' own.
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "up": ("operations.parts:up", "Run everything: web, scheduler and host."),
        "web": ("operations.parts:web", "Serve the web pages and the API."),
        "scheduler": (
            "operations.parts:scheduler",
            "Split due messages into pages for the senders.",
        ),
        "sender": ("operations.parts:sender", "Send the emails of pages."),
        "host": (
            "operations.parts:host",
            "Start applications when messages arrive, and stop idle ones.",
        ),
        "inbound": (
            "operations.parts:inbound",
            "Receive bounces, or fetch them from a mailbox.",
        ),
        "events": (
            "operations.events:events",
            "Show system activity: messages, queues and applications.",
        ),
        "check": ("operations.check:check", "Check settings, store and transport."),
        "settings": (
            "operations.settings:settings",
            "Show settings, and change those that are kept in the store.",
        ),
    },
    "Lists and messages": {
        "list": ("audience.lists:lists", "Manage mailing lists."),
        "subscriber": (
            "audience.subscribers:subscribers",
            "Manage the subscribers of a list; import and export.",
        ),
        "field": ("audience.fields:fields", "Manage the fields of a list."),
        "segment": (
            "audience.segments:segments",
            "Manage segments: named rules that select subscribers.",
        ),
        "suppression": (
            "audience.suppressions:suppressions",
            "Manage addresses that must not receive email.",
        ),
        "message": (
            "messages.messages:messages",
            "Write and schedule messages, and follow their delivery.",
        ),
        "results": ("messages.results:results", "Show the results of the last 50 messages."),
        "template": (
            "messages.templates:templates",
            "Manage the templates of messages.",
        ),
        "picture": ("messages.pictures:pictures", "Manage the pictures of messages."),
        "dkim": ("messages.dkim:dkim", "Manage the DKIM keys that sign emails."),
        "provider": (
            "messages.providers:providers",
            "Show how fast providers accept emails, and limit the rate.",
        ),
        "warmup": (
            "messages.warm_ups:warm_ups",
            "Plan how many emails per day a new domain or IP address sends.",
        ),
        "bounce": ("audience.bounces:bounces", "Receive bounces and complaints."),
        "trace": ("audience.personal_data:trace", "Show everything that happened to one address."),
    },
    "Access": {
        "user": ("accounts.users:users", "Manage who can log in."),
        "group": ("accounts.groups:groups", "Manage groups, whose members share rights on lists."),
        "access": (
            "accounts.list_access:access",
            "Grant rights on individual lists to users, groups and API keys.",
        ),
        "apikey": ("accounts.api_keys:apikeys", "Manage API keys."),
    },
    "Host": {
        "app": ("queues.apps:apps", "Manage the applications that queues start."),
    },
    "Inspect the store": {
        "queue": ("queues.queues:queues", "Inspect queues, and manage access to them."),
        "store": (
            "operations.store:stores",
            "Copy the store to another engine, or re-encrypt its secrets.",
        ),
        "cost": (
            "operations.cost:cost",
            "Estimate the monthly cost of Azure Storage.",
        ),
        "table": ("operations.store:tables", "Inspect tables."),
        "blob": ("operations.store:blobs", "Inspect blobs."),
    },
}
NOT_ENOUGH_MEMORY = (
    "not enough memory: raise the limit (ulimit -v, or that of the container) to at least 1 GB"
)
NOT_ENOUGH_FILES = (
    "not enough open files: raise the limit (ulimit -n, or LimitNOFILE of the service) to at least "
    "1024"
)
_LEAST_MEMORY = 256 * 1024 * 1024  # of address space; with less, libraries fail or hang when loaded
_LEAST_FILES = 128  # `up` has about 40 open when nothing happens; visitors and emails need more
_SHORTAGES = {errno.ENOMEM: NOT_ENOUGH_MEMORY, errno.EMFILE: NOT_ENOUGH_FILES}
_OUT_OF_MEMORY = ("failed to map segment", "annot allocate memory", "can't start new thread")

# Commands that run until they are stopped.
PARTS = frozenset({"up", "web", "scheduler", "sender", "host", "inbound"})
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
                    [(name.ljust(widest), summary) for name, (_, summary) in commands.items()]
                )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="postroom")
def postroom() -> None:
    """Run your own mailing lists.

    Postroom keeps lists of subscribers and sends each message to every confirmed subscriber once.
    It starts with one file and grows to many machines by changing one URL.
    """


def main() -> None:
    """Run the command line: exit status 0, 1 (it failed, one line says why) or 2 (wrong usage).

    click itself handles wrong usage. An error that is not ours is a bug and keeps its traceback.
    """
    if sys.argv[1:2] and sys.argv[1] in PARTS:
        _exit_cleanly_when_stopped()
        _check_limits()
    try:
        postroom(prog_name="postroom")
    except PostroomError as error:
        _fail(error)
    except (MemoryError, ImportError, RuntimeError, OSError) as error:
        if (shortage := _shortage(error)) is None:
            raise
        _fail(shortage)
    except BaseExceptionGroup as group:  # of parts that run side by side
        ours, others = group.split(PostroomError)
        if others is not None and (shortage := _shortage_in(others)) is not None:
            _fail(shortage)
        if ours is None or others is not None:
            raise
        _fail(_first_of(ours))


def _exit_cleanly_when_stopped() -> None:
    """Exit with status 0 on a signal, until the part installs its own handlers."""
    for number in stop_signals():
        signal.signal(number, lambda *_: sys.exit(0))


def _check_limits() -> None:
    """Refuse limits with which a part would fail later, and somewhere in a library."""
    for kind, least, shortage in (
        (resource.RLIMIT_AS, _LEAST_MEMORY, NOT_ENOUGH_MEMORY),
        (resource.RLIMIT_NOFILE, _LEAST_FILES, NOT_ENOUGH_FILES),
    ):
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY and limit < least:
            _fail(shortage)


def _shortage(error: BaseException) -> str | None:
    """Return what to say if memory or descriptors have run out, which libraries report in
    different ways; None for any other error."""
    if isinstance(error, OSError):
        return _SHORTAGES.get(error.errno or 0)
    if isinstance(error, (ImportError, RuntimeError)):
        is_memory = any(sign in str(error) for sign in _OUT_OF_MEMORY)
    else:
        is_memory = isinstance(error, MemoryError)
    return NOT_ENOUGH_MEMORY if is_memory else None


def _shortage_in(group: BaseExceptionGroup[BaseException]) -> str | None:
    found = group.subgroup(lambda error: _shortage(error) is not None)
    return None if found is None else _shortage(_first_of(found))


def _fail(error: object) -> NoReturn:
    """Print the error as one line, and exit."""
    click.echo(f"postroom: {' '.join(str(error).split())}", err=True)
    sys.exit(1)


def _first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
