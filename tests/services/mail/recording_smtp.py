"""A mail server that records what it got, and refuses, delays or hangs up where a test says so.

Its faults can be changed while it runs, as often as a test likes; connections that are open already
follow the new rules from their next command:

    with running_recording_smtp() as server:
        server.script(Rule("RCPT", r"@slow\\.example$", "451 4.7.0 [TSS04] deferred"))
        …
        server.script(Rule("AUTH", reply="535 5.7.8 wrong password", times=3))
        …
        server.script()                 # everything works again
        server.stop(); server.start()   # away, and back on the same port with the same record

What it saw can be asked at any time: `received()` has every email that arrived up to its final dot,
`faults()` each time a rule acted (so the recipients that were touched and not taken), and
`connections()` the number of connections so far.

The faults of a mail server, as rules (at any stage):

| fault | rule |
|---|---|
| a temporary or permanent reply | `Rule("RCPT", "bob", "450 4.2.1 busy")` |
| a reply, then the connection closed | `Rule("end", reply="421 4.3.2 closing", drop=True)` |
| the connection closed without a reply | `Rule("DATA", drop=True)` |
| the connection reset | `Rule("DATA", reset=True)` |
| silence | `Rule("MAIL", wait=60)` |
| garbage, alone or after a valid reply | `Rule("end", reply="250 2.0.0 ok\\r\\nGARBAGE")` |
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.services.process import ServiceProcess, folder_for
from tests.services.waiting import LOOPBACK, free_ports

_PROGRAM = Path(__file__).with_name("recording_smtp_server.py")


@dataclass(frozen=True, slots=True)
class Rule:
    """What the server does at a stage instead of the ordinary.

    `stage`: greeting, EHLO, STARTTLS, AUTH, RSET, MAIL, RCPT, DATA, content (in the middle of the
    mail, `after` so many bytes) or end (after the final dot; the mail is recorded before). `match`
    is searched in the sender (MAIL) or the recipient (RCPT and later). It waits, then replies, then
    drops or resets the connection, each only if told. `times`: so often and no more; `each`: for
    each address; `above`: only if it has let so many pass within the last second.
    """

    stage: str
    match: str = ""
    reply: str = ""
    drop: bool = False
    reset: bool = False
    wait: float = 0.0
    times: int | None = None
    each: bool = False
    after: int = 0
    above: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """An email that was received up to its final dot. `reply` is empty if none was given."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    reply: str
    at: float
    connection: str
    """The same for emails of the same connection."""

    @property
    def accepted(self) -> bool:
        return self.reply.startswith("2")

    @property
    def message_id(self) -> str:
        found = re.search(rb"^message-id:\s*(\S+)", self.content, re.IGNORECASE | re.MULTILINE)
        return found[1].decode() if found else ""


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that acted: at which stage, for which address (none before MAIL), with which reply."""

    stage: str
    subject: str
    reply: str
    at: float


class RecordingSmtp:
    """A running server. It can be stopped and started again: the record goes on."""

    def __init__(self, port: int, folder: Path, process: ServiceProcess) -> None:
        self.host = LOOPBACK
        self.port = port
        self.url = f"smtp://{LOOPBACK}:{port}"
        self._folder = folder
        self._process = process
        self._record = _Lines(folder / "record.jsonl")
        self._events = _Lines(folder / "events.jsonl")

    def start(self) -> None:
        (self._folder / "listening").unlink(missing_ok=True)
        self._process.start()

    def stop(self) -> None:
        self._process.stop()

    def script(self, *rules: Rule) -> None:
        """From now on these rules hold, and no others."""
        _write_rules(self._folder, rules)

    def received(self) -> list[Recorded]:
        """All that arrived up to the final dot, whatever was replied."""
        return [_recorded(each) for each in self._record.read()]

    def faults(self) -> list[Fault]:
        """Each time that a rule acted, in order."""
        return [
            Fault(each["stage"], each["subject"], each["reply"], each["at"])
            for each in self._events.read()
            if each["stage"]
        ]

    def connections(self) -> int:
        """How many connections there were, since the first start."""
        return sum(not each["stage"] for each in self._events.read())

    def accepted(self) -> list[Recorded]:
        return [each for each in self.received() if each.accepted]

    def copies(self) -> Counter[str]:
        """How often each recipient's mail arrived, except where it was then refused."""
        found: Counter[str] = Counter()
        for each in self._record.read():
            if not each["reply"] or each["reply"].startswith("2"):
                found.update(each["recipients"])
        return found


class _Lines:
    """A file of JSON lines that grows; what was read once is not read again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[dict[str, Any]] = []
        self._size = 0

    def read(self) -> list[dict[str, Any]]:
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._size)
                # While the server writes, the last line may be without its end.
                whole, end, _ = file.read().rpartition(b"\n")
            self._size += len(whole) + len(end)
            for line in whole.splitlines():
                # A server that was killed while it wrote has not answered that email.
                with suppress(json.JSONDecodeError):
                    self._entries.append(json.loads(line))
        return self._entries


def _recorded(entry: dict[str, Any]) -> Recorded:
    return Recorded(
        entry["sender"],
        tuple(entry["recipients"]),
        entry["content"].encode("latin-1"),
        entry["reply"],
        entry["at"],
        entry["connection"],
    )


def _write_rules(folder: Path, rules: tuple[Rule, ...]) -> None:
    fresh = folder / "rules.new"
    fresh.write_text(json.dumps([asdict(each) for each in rules]))
    fresh.replace(folder / "rules.json")


@contextmanager
def running_recording_smtp(
    *rules: Rule,
    pipelining: bool = True,
    smtputf8: bool = True,
    size: int = 0,
    user: str = "",
    password: str = "",
    mechanisms: str = "PLAIN LOGIN",
    certificate: Path | None = None,
    implicit_tls: bool = False,
    lenient_data: bool = False,
    delay: float = 0.0,
    keep_content: bool = True,
) -> Iterator[RecordingSmtp]:
    """Start the server and stop it in the end.

    `certificate` is a PEM file with key and chain: it offers STARTTLS, or with `implicit_tls`
    speaks TLS at once. `lenient_data` allows DATA without a recipient. `delay` comes before each
    group of replies. Without `keep_content` only the headers are recorded.
    """
    [port] = free_ports(1)
    with folder_for("recording-smtp", None) as folder:
        settings = {
            "port": port,
            "rules": str(folder / "rules.json"),
            "record": str(folder / "record.jsonl"),
            "events": str(folder / "events.jsonl"),
            "listening": str(folder / "listening"),
            "pipelining": pipelining,
            "smtputf8": smtputf8,
            "size": size,
            "user": user,
            "password": password,
            "mechanisms": mechanisms,
            "certificate": str(certificate) if certificate else "",
            "implicit_tls": implicit_tls,
            "lenient_data": lenient_data,
            "delay": delay,
            "keep_content": keep_content,
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        _write_rules(folder, rules)
        process = ServiceProcess(
            name="recording SMTP server",
            command=[sys.executable, "-I", str(_PROGRAM), str(folder / "settings.json")],
            folder=folder,
            is_ready=(folder / "listening").exists,  # a connection would be counted
        )
        server = RecordingSmtp(port, folder, process)
        server.start()
        try:
            yield server
        finally:
            server.stop()
