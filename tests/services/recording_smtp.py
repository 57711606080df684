"""A mail server that records what it got, and refuses, delays or hangs up where a test says so."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.services.process import ServiceProcess, folder_for
from tests.services.waiting import LOOPBACK, accepts_connections, free_ports

_PROGRAM = Path(__file__).with_name("recording_smtp_server.py")


@dataclass(frozen=True, slots=True)
class Rule:
    """What the server does at a stage instead of the ordinary.

    `stage`: greeting, EHLO, STARTTLS, AUTH, RSET, MAIL, RCPT, DATA, content (in the middle of the
    mail, `after` so many bytes) or end (after the final dot; the mail is recorded before). `match`
    is searched in the sender (MAIL) or the recipient (RCPT and later). It waits, then replies, then
    drops the connection, each only if told. `times`: so often and no more; `each`: for each
    address.
    """

    stage: str
    match: str = ""
    reply: str = ""
    drop: bool = False
    wait: float = 0.0
    times: int | None = None
    each: bool = False
    after: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """A mail that was received up to its final dot. `reply` is empty if none was given."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    reply: str
    at: float

    @property
    def accepted(self) -> bool:
        return self.reply.startswith("2")

    @property
    def message_id(self) -> str:
        found = re.search(rb"^message-id:\s*(\S+)", self.content, re.IGNORECASE | re.MULTILINE)
        return found[1].decode() if found else ""


class RecordingSmtp:
    """A running server. It can be stopped and started again: the record goes on."""

    def __init__(self, port: int, folder: Path, process: ServiceProcess) -> None:
        self.host = LOOPBACK
        self.port = port
        self.url = f"smtp://{LOOPBACK}:{port}"
        self._folder = folder
        self._process = process

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        self._process.stop()

    def script(self, *rules: Rule) -> None:
        """From now on these rules hold, and no others."""
        _write_rules(self._folder, rules)

    def received(self) -> list[Recorded]:
        """All that arrived up to the final dot, whatever was replied."""
        record = self._folder / "record.jsonl"
        if not record.exists():
            return []
        # Whoever reads while the server writes may see a last line without its end.
        lines = record.read_bytes().splitlines(keepends=True)
        return [_recorded(json.loads(line)) for line in lines if line.endswith(b"\n")]

    def accepted(self) -> list[Recorded]:
        return [each for each in self.received() if each.accepted]

    def copies(self) -> Counter[str]:
        """How often each recipient's mail arrived, except where it was then refused."""
        found: Counter[str] = Counter()
        for each in self.received():
            if each.accepted or not each.reply:
                found.update(each.recipients)
        return found


def _recorded(entry: dict[str, object]) -> Recorded:
    recipients = entry["recipients"]
    at = entry["at"]
    assert isinstance(recipients, list)
    assert isinstance(at, float)
    return Recorded(
        str(entry["sender"]),
        tuple(recipients),
        str(entry["content"]).encode("latin-1"),
        str(entry["reply"]),
        at,
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
            is_ready=lambda: accepts_connections(port),
        )
        process.start()
        try:
            yield RecordingSmtp(port, folder, process)
        finally:
            process.stop()
