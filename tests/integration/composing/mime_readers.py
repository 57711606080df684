"""Three programs that read emails, by different people in different languages."""

from __future__ import annotations

import email
import email.policy
import subprocess
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from pathlib import Path
from shutil import which
from typing import Final

import msgspec

from tests.services.missing import require

_ROOT: Final = Path(__file__).parents[3]
_HERE: Final = Path(__file__).parent


class ReadFile(msgspec.Struct, frozen=True):
    name: str
    type: str
    content: bytes


class ReadEmail(msgspec.Struct, frozen=True):
    """What somebody sees of an email."""

    subject: str
    sender: str
    text: str
    html: str
    files: tuple[ReadFile, ...] = ()


def _with_python(files: Sequence[Path]) -> list[ReadEmail]:
    return [_read(each.read_bytes()) for each in files]


def _read(raw: bytes) -> ReadEmail:
    message = email.message_from_bytes(raw, policy=email.policy.default)
    text, html = message.get_body(["plain"]), message.get_body(["html"])
    assert text is not None
    assert html is not None
    return ReadEmail(
        message["subject"],
        message["from"].addresses[0].addr_spec,
        text.get_content(),
        html.get_content(),
        tuple(map(_attached, message.iter_attachments())),
    )


def _attached(part: EmailMessage) -> ReadFile:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return ReadFile(part.get_filename() or "", part.get_content_type(), content)


def _with_postal_mime(files: Sequence[Path]) -> list[ReadEmail]:
    node = which("node")
    if node is None or not (_ROOT / "node_modules/postal-mime").exists():
        require("postal-mime", "npm ci")
    return _printed([node, str(_HERE / "read_with_postal_mime.cjs")], files)


def _with_mime_tools(files: Sequence[Path]) -> list[ReadEmail]:
    perl = which("perl")
    loads = [perl or "perl", "-MMIME::Parser", "-e1"]
    if perl is None or subprocess.run(loads, capture_output=True).returncode:
        require("MIME-tools of Perl", "apt-get install libmime-tools-perl")
    return _printed([perl, str(_HERE / "read_with_mime_tools.pl")], files)


def _printed(command: Sequence[str], files: Sequence[Path]) -> list[ReadEmail]:
    done = subprocess.run([*command, *map(str, files)], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=list[ReadEmail])


READERS: Final[Mapping[str, Callable[[Sequence[Path]], list[ReadEmail]]]] = {
    "Python": _with_python,
    "postal-mime": _with_postal_mime,
    "MIME-tools": _with_mime_tools,
}
