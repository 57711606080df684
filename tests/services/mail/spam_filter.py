"""SpamAssassin, which says how much an email looks like spam, and why."""

from __future__ import annotations

import email
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from typing import Final

import msgspec

from tests.services.missing import require

# The rules that come with the package, whatever updates the machine has.
_RULES: Final = "/usr/share/spamassassin"
_SETTINGS: Final = (
    "dns_available no",
    "use_bayes 0",
    "report_safe 0",
    "add_header all Name _HEADER(X-Name)_",
    "add_header all Score _SCORE_",
    "add_header all Rules _TESTSSCORES(,)_",
    # It takes a Cyrillic letter next to a Latin one for a disguise: so does every Russian email
    # that has a link in it.
    "score MIXED_ES 0",
)


class Verdict(msgspec.Struct, frozen=True):
    score: float
    rules: str
    """The rules that apply, with what each of them adds."""


def judge(emails: Mapping[str, bytes], folder: Path) -> dict[str, Verdict]:
    """Return what the local rules say of each email: nothing is looked up in a network."""
    program = which("spamassassin")
    if program is None:
        require("SpamAssassin", "apt-get install spamassassin")
    preferences = folder / "user_prefs"
    preferences.write_text("")
    done = subprocess.run(
        [program, "--local", "--mbox", f"--configpath={_RULES}", f"--prefs-file={preferences}"]
        + [f"--cf={each}" for each in _SETTINGS],
        input=b"".join(_in_mailbox(name, raw) for name, raw in emails.items()),
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    verdicts = {}
    for each in done.stdout.split(_BEGIN)[1:]:
        read = email.message_from_bytes(each)
        verdicts[read["X-Name"]] = Verdict(float(read["X-Spam-Score"]), read["X-Spam-Rules"])
    return verdicts


_BEGIN: Final = b"From judge Mon Nov 16 00:00:00 2026\n"


def _in_mailbox(name: str, raw: bytes) -> bytes:
    unixed = raw.replace(b"\r\n", b"\n")  # no line of ours begins with `From `
    return b"%bX-Name: %b\n%b\n" % (_BEGIN, name.encode(), unixed)
