"""What the composer produces, before the programs that will judge and read it."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shutil import which

import msgspec
import pytest

from postroom.mail.mail_reader import read_mail
from tests.integration.composing.emails import ATTACHMENTS, SUBJECT, every_email
from tests.integration.composing.mime_readers import READERS, ReadEmail, ReadFile
from tests.services.mail.spam_filter import judge
from tests.services.missing import require

HIGHEST_SCORE = 0.1
GTUBE = b"XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"
CHECKER = Path(__file__).parents[3] / "node_modules/vnu-jar/build/dist/vnu.jar"
FOR_OUTLOOK = (
    # Its own properties, such as `mso-line-height-rule`, which other programs skip.
    "CSS: “mso-",
    # The namespace of VML, in which it draws rounded buttons, within comments that only it reads.
    "Attribute “xmlns:v”",
    # The namespace of its settings for the resolution of pictures, also within such a comment.
    "Attribute “xmlns:o”",
)


@pytest.fixture(scope="module")
def emails() -> Mapping[str, bytes]:
    return every_email()


def test_a_spam_filter_finds_nothing_in_them(emails: Mapping[str, bytes], tmp_path: Path) -> None:
    spam = b"From: a@b.example\r\nSubject: Hello\r\n\r\n%b\r\n" % GTUBE
    verdicts = judge({**emails, "spam": spam}, tmp_path)
    assert verdicts.pop("spam").score > 100, "the filter is not at work"
    assert verdicts.keys() == emails.keys()
    assert {name: each for name, each in verdicts.items() if each.score > HIGHEST_SCORE} == {}


def test_their_html_is_valid(emails: Mapping[str, bytes], tmp_path: Path) -> None:
    documents = {name: read_mail(raw).html or "" for name, raw in emails.items()}
    found = _invalid({**documents, "wrong": "<!DOCTYPE html><p></b>"}, tmp_path)
    wrong = [each for each in found if each.startswith("wrong: ")]
    assert wrong, "the checker is not at work"
    assert [each for each in found if each not in wrong] == []


def _invalid(documents: Mapping[str, str], folder: Path) -> list[str]:
    """Return the errors that the Nu HTML checker finds, each with the name of its document."""
    java = which("java")
    if java is None or not CHECKER.exists():
        require("The Nu HTML checker", "apt-get install default-jre-headless; npm ci")
    names = {}
    for number, (name, html) in enumerate(documents.items()):
        file = folder / f"{number}.html"
        file.write_text(html)
        names[file.name] = name
    done = subprocess.run(
        [java, "-jar", CHECKER, "--format", "json", "--errors-only", *folder.glob("*.html")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    return [
        f"{names[Path(each['url']).name]}: line {each.get('lastLine')}: {each['message']}"
        for each in json.loads(done.stderr)["messages"]
        if not each["message"].startswith(FOR_OUTLOOK)
    ]


def test_three_programs_read_the_same_in_them(emails: Mapping[str, bytes], tmp_path: Path) -> None:
    files = []
    for number, raw in enumerate(emails.values()):
        files.append(tmp_path / f"{number}.eml")
        files[-1].write_bytes(raw)
    first, *others = (list(map(_unixed, read(files))) for read in READERS.values())
    for other in others:
        for name, here, there in zip(emails, first, other, strict=True):
            assert here == there, name
    attached = first[list(emails).index("attachments")]
    assert attached.subject == SUBJECT
    assert attached.sender == "news@contoso.example"
    assert attached.files == tuple(
        ReadFile(each.name, each.type, each.content) for each in ATTACHMENTS
    )


def _unixed(read: ReadEmail) -> ReadEmail:
    """Return the same with the line ends of Unix, as some of the programs have them, and without
    spaces at the end, which some remove."""
    text, html = (each.replace("\r\n", "\n").rstrip() for each in (read.text, read.html))
    return msgspec.structs.replace(read, text=text, html=html)
