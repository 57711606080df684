"""A process that runs `postroom` commands, each in a fork of itself.

Most of what a command costs is to import it. Here that is done once; a command is still a
separate process, with its own arguments, folder, environment, input, output and exit status:

    python -I tests/services/forking_commands.py

For each line of JSON on standard input it runs one command. It writes the command's process id when
it runs, and its exit status when it has ended (below 0: the signal that killed it).
"""

import atexit
import json
import os
import random
import sys
import threading
import time
import traceback
from importlib import import_module
from typing import Any, NoReturn

from postroom.cli import main as command_line

_ENGINES = ("postroom.storage.sqlite.engine", "postroom.storage.postgres.engine", "postroom.wiring")


def load_commands() -> None:
    """Import all commands but those that run until they are stopped."""
    for name, place in command_line._PLACES.items():
        if name not in command_line.PARTS:
            import_module(f"postroom.cli.{place.partition(':')[0]}")
    for engine in _ENGINES:
        import_module(engine)
    if threading.active_count() > 1:
        raise RuntimeError("an import has started a thread, which a fork would lose")


def run_in_child(request: dict[str, Any]) -> NoReturn:
    """Become the command."""
    status = 1
    try:
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        random.seed()
        flags = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)
        for number, (name, flag) in enumerate(zip(("in", "out", "err"), flags, strict=True)):
            os.dup2(os.open(request[name], flag), number)
        sys.argv = ["postroom", *request["arguments"]]
        command_line.main()
        status = 0
    except SystemExit as exc:
        status = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    load_commands()
    requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        request = json.loads(line)
        child = os.fork()
        if not child:
            run_in_child(request)
        print(child, file=replies, flush=True)
        _, ended = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(ended), file=replies, flush=True)


if __name__ == "__main__":
    main()
