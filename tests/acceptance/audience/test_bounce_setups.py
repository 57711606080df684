"""The set-ups of the guide on bounces work: their commands and lines are taken from the guide and
tried with a real Postfix, a mailbox server, curl and signed webhooks.

Only names of the guide that no test can have are replaced: ports, folders, users and hosts.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import shlex
import smtplib
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from postroom.domain.audience.lists.lists import new_guid
from postroom.domain.messages.refs import new_ref
from postroom.mail.bounces.envelope_tokens import PURPOSE, EnvelopeSigner
from postroom.settings import load_settings
from postroom.wiring import make_keyring
from tests.acceptance.hosting import SECRET_KEY
from tests.docs.examples import Example, examples_in
from tests.services.mail.dsn_mails import dsn
from tests.services.mail.mailbox_server import PASSWORD, Mailbox, serving
from tests.services.mail.postfix import Postfix, running_postfix
from tests.services.postroom import PROGRAM
from tests.services.process import ServiceProcess, folder_for
from tests.services.waiting import LOOPBACK, accepts_connections, free_ports, wait_until

PAGE = (Path(__file__).parents[3] / "docs/guides/bounces.md").read_text()
DOMAIN = "bounce.example.com"

pytestmark = pytest.mark.timeout(240)


def section(heading: str) -> str:
    """Return a section of the guide."""
    text = PAGE.partition(f"\n### {heading}\n")[2]
    assert text, heading
    return re.split(r"^#{2,3} ", text, maxsplit=1, flags=re.MULTILINE)[0]


def block(text: str, language: str) -> str:
    """Return the only block of a language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return str(found)


@dataclass
class Operator:
    """Follows a section of the guide on a machine whose folder this is."""

    folder: Path
    replaced: Mapping[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    part: ServiceProcess | None = None

    def __post_init__(self) -> None:
        (self.port,) = free_ports(1)
        self.environment = {
            "PATH": f"{PROGRAM.parent}:/usr/sbin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "HOME": str(self.folder),
            "POSTROOM_PORT": str(self.port),
            "POSTROOM_SECRET_KEY": SECRET_KEY,
            **self.environment,
        }

    def reads(self, text: str) -> str:
        for name, value in self.replaced.items():
            assert name in text, f"the guide no longer names {name}"
            text = text.replace(name, value)
        return text

    def follows(self, text: str) -> None:
        """Type the commands of a section. What is exported may stand below the command that needs
        it: the guide adds options later."""
        examples = examples_in(self.reads(text))
        for example in examples:
            if example.words[0] == "export":
                for each in shlex.split(example.command)[1:]:
                    name, _, value = each.partition("=")
                    self.environment[name] = value
        for example in examples:
            if example.words[0] == "postroom":
                self.starts(example.command)
            elif example.words[0] != "export":
                self._runs(example)

    def starts(self, command: str) -> None:
        assert command in ("postroom up", "postroom inbound", "postroom web")
        given = [f"{name}={value}" for name, value in self.environment.items()]
        started = ["env", "-i", *given, str(PROGRAM), *command.split()[1:]]
        self.part = ServiceProcess(command, started, self.folder, self._is_ready)
        self.part.start()

    def _is_ready(self) -> bool:
        inbound = self.environment.get("POSTROOM_INBOUND_PORT")
        if inbound and not accepts_connections(int(inbound)):
            return False
        if self.part is None or self.part.name == "postroom inbound":
            return True
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}/readyz", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _runs(self, example: Example) -> None:
        variable = re.match(r"([A-Z]+)=\$\(", example.command)
        printing = f'; printf %s "${variable[1]}"' if variable else ""
        done = subprocess.run(
            ["bash", "-c", f"set -e; {example.command}{printing}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, f"{example.command}: {done.stderr}"
        assert example.is_printed_in(done.stdout), f"{example.command}: {done.stdout}"
        if variable:
            self.environment[variable[1]] = done.stdout

    def says(self, *arguments: str) -> str:
        """Return what a command of Postroom prints."""
        done = subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
        )
        return done.stdout

    def sees(self, source: str) -> bool:
        """Return whether a bounce is stored: still queued, or already looked at in vain."""
        queued = self.says("queue", "peek", "mail/bounce", "--json")
        items = json.loads(queued)["items"] if queued else []
        if any(each["properties"]["source"] == source for each in items):
            return True
        return f"A bounce ({source}) matches no email" in self.says("events")

    def waits_for(self, source: str) -> None:
        wait_until(lambda: self.sees(source), seconds=25, what=f"a bounce by {source} arrives")

    def envelope(self) -> str:
        """Return an envelope sender that this Postroom has signed."""
        keyring = make_keyring(load_settings(self.environment, self.folder))
        signer = EnvelopeSigner(keyring.signing_keys(PURPOSE), domain=DOMAIN)
        tokens = signer.of_message(new_ref())
        return tokens.sender(tokens.token(new_guid()))

    def leaves(self) -> None:
        if self.part is not None:
            self.part.stop()


@contextmanager
def operator(
    folder: Path,
    replaced: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Operator]:
    at_work = Operator(folder, replaced or {}, dict(environment or {}))
    try:
        yield at_work
    finally:
        at_work.leaves()


def deliver(port: int, recipient: str, tls: ssl.SSLContext | None = None) -> None:
    """Hand over a bounce by SMTP."""
    with smtplib.SMTP(LOOPBACK, port, timeout=30) as client:
        if tls is not None:
            client.starttls(context=tls)
        client.sendmail("", [recipient], dsn(to=recipient))


def deliver_to_postfix(postfix: Postfix, recipient: str) -> None:
    """The same, as soon as Postfix knows the domain: it reloads in the background."""

    def is_accepted() -> bool:
        with suppress(smtplib.SMTPException, OSError):
            deliver(int(postfix.url.rpartition(":")[2]), recipient)
            return True
        return False

    wait_until(is_accepted, seconds=30, what="Postfix takes mail for the bounce domain")


@pytest.fixture
def postfix() -> Iterator[Postfix]:
    with running_postfix(routes={"elsewhere.example": "discard:"}) as started:
        yield started


def test_postfix_hands_over_by_lmtp(tmp_path: Path, postfix: Postfix) -> None:
    (port,) = free_ports(1)
    replaced = {"8424": str(port), "/etc/postfix": str(postfix.folder)}
    with operator(tmp_path, replaced, {"MAIL_CONFIG": str(postfix.folder)}) as at_work:
        at_work.follows(section("From Postfix on the same machine, by LMTP"))
        deliver_to_postfix(postfix, at_work.envelope())
        at_work.waits_for("lmtp")
        with (
            smtplib.LMTP(LOOPBACK, port) as client,
            pytest.raises(smtplib.SMTPRecipientsRefused, match=r"5\.1\.1"),
        ):
            client.sendmail("", [f"somebody@{DOMAIN}"], dsn())


def test_other_servers_deliver_directly_and_encrypted(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    replaced = {
        "BIND=0.0.0.0": f"BIND={LOOPBACK}",
        "2525": str(port),
        "/etc/letsencrypt/live/bounce.example.com": str(tmp_path),
    }
    key, certificate = tmp_path / "privkey.pem", tmp_path / "fullchain.pem"
    making = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={LOOPBACK}"
    names = ["-addext", f"subjectAltName=IP:{LOOPBACK}", "-keyout", str(key)]
    written = [*making.split(), *names, "-out", str(certificate)]
    subprocess.run(written, check=True, capture_output=True)
    with operator(tmp_path, replaced) as at_work:
        at_work.follows(section("Directly, as the MX of the bounce domain"))
        deliver(port, at_work.envelope(), ssl.create_default_context(cafile=certificate))
        at_work.waits_for("smtp")


_RELAY = """\
#!/bin/sh
cd {asked}/..
printf '%s\\n' "$@" > {asked}/arguments
env > {asked}/environment
printf '%s' "$OLDPWD" > {asked}/folder
cat > {asked}/mail
echo > {asked}/go
read -r status < {asked}/status
exit "$status"
"""


@dataclass
class Pipe:
    """Runs what Postfix runs as another user, who may not open the interpreter of the tests: with
    the arguments, environment, folder and input that Postfix gave it. Postfix gets its status."""

    asked: Path
    statuses: list[int] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)

    def run(self) -> None:
        while (self.asked / "go").read_text() == "\n":
            lines = (self.asked / "environment").read_text().splitlines()
            environment = dict(line.split("=", 1) for line in lines)
            done = subprocess.run(
                [PROGRAM, *(self.asked / "arguments").read_text().splitlines()],
                cwd=(self.asked / "folder").read_text(),
                env=environment,
                input=(self.asked / "mail").read_bytes(),
                timeout=90,
            )
            self.environments.append(environment)
            self.statuses.append(done.returncode)
            (self.asked / "status").write_text(f"{done.returncode}\n")


@contextmanager
def running_pipe(folder: Path) -> Iterator[Pipe]:
    asked = folder / "asked"
    asked.mkdir()
    asked.chmod(0o777)
    (folder / "relay").write_text(_RELAY.format(asked=asked))
    (folder / "relay").chmod(0o755)
    for name in ("go", "status"):
        subprocess.run(["mkfifo", "-m", "666", asked / name], check=True)
    pipe = Pipe(asked)
    thread = threading.Thread(target=pipe.run, daemon=True)
    thread.start()
    try:
        yield pipe
    finally:
        (asked / "go").write_text("stop")
        thread.join(90)


def test_postfix_runs_a_command_which_reads_its_settings_from_a_file(postfix: Postfix) -> None:
    text = section("From Postfix, by a pipe")
    with folder_for("pipe", None) as folder, running_pipe(folder) as pipe:
        folder.chmod(0o755)
        home = folder / "srv"
        home.mkdir()
        replaced = {
            "/etc/postfix": str(postfix.folder),
            "/srv/postroom": str(home),
            "/usr/local/bin/postroom": str(folder / "relay"),
            "user=postroom": "user=nobody",
        }
        with operator(home, replaced, {"MAIL_CONFIG": str(postfix.folder)}) as at_work:
            text = at_work.reads(text)
            at_work.replaced = {}
            with (postfix.folder / "master.cf").open("a") as services:
                services.write(block(text, "text"))
            settings = home / "postroom.toml"
            settings.write_text('store = "sqlite:////proc/none/x.db"\n')
            at_work.follows(text)
            deliver_to_postfix(postfix, f"anybody@{DOMAIN}")
            wait_until(lambda: 75 in pipe.statuses, seconds=25, what="the command fails")
            settings.write_text(block(text, "toml"))
            wait_until(lambda: 0 in pipe.statuses, seconds=25, what="Postfix tries again")
            assert set(pipe.statuses) == {75, 0}
            given = {name for each in pipe.environments for name in each}
            assert not [name for name in given if name.startswith("POSTROOM_")]
            [item] = json.loads(at_work.says("queue", "peek", "mail/bounce", "--json"))["items"]
            assert item["properties"] == {"source": "pipe", "to": f"anybody@{DOMAIN}"}


@pytest.mark.parametrize("protocol", ["imap", "pop3"])
async def test_bounces_are_fetched_from_a_mailbox(tmp_path: Path, protocol: str) -> None:
    mailbox = Mailbox()
    mailbox.add(dsn())
    async with serving(mailbox, protocol) as port:
        replaced = {
            "imaps://": f"{protocol}://",
            ":PASSWORD@": f":{quote(PASSWORD)}@",
            "mail.example.com/INBOX": f"{LOOPBACK}:{port}" + "/INBOX" * (protocol == "imap"),
        }
        with operator(tmp_path, replaced) as at_work:
            await asyncio.to_thread(at_work.follows, section("From a mailbox, by IMAP or POP3"))
            await asyncio.to_thread(at_work.waits_for, protocol)
    assert mailbox.folders["INBOX"] == {}
    assert len(mailbox.folders.get("Postroom", {})) == (protocol == "imap")


def test_any_program_posts_to_the_api(tmp_path: Path) -> None:
    with operator(tmp_path) as at_work:
        at_work.replaced = {"https://lists.example.com": f"http://{LOOPBACK}:{at_work.port}"}
        (tmp_path / "bounce.eml").write_bytes(dsn())
        at_work.starts("postroom web")  # nothing takes it from the queue
        at_work.follows(section("From any program, by the API"))
        at_work.waits_for("api")


def test_providers_call_webhooks_which_refuse_what_is_not_proved(tmp_path: Path) -> None:
    text = section("From an email provider, by webhook")
    rows = re.findall(r"^\| .* \| `(/hooks/\w+)\S*` \| `(POSTROOM_\w+)`", text, re.MULTILINE)
    assert len(rows) == 7
    secret = subprocess.run(
        ["openssl", "rand", "-hex", "24"], check=True, capture_output=True, text=True
    ).stdout.strip()
    known = {"POSTROOM_POSTMARK_WEBHOOK_SECRET": secret, "POSTROOM_MAILGUN_WEBHOOK_KEY": secret}
    with operator(tmp_path, environment={**known, "SECRET": secret}) as at_work:
        here = f"http://{LOOPBACK}:{at_work.port}"
        at_work.replaced = {"https://lists.example.com": here}
        at_work.starts("postroom web")  # nothing takes it from the queue
        with httpx2.Client(base_url=here, timeout=30) as http:
            for path, setting in rows:
                refused = http.post(path, json={})
                if setting not in known:
                    assert (refused.status_code, setting in refused.text) == (403, True), path
                else:
                    assert refused.status_code in (401, 403), path
            at_work.follows(text)
            at_work.waits_for("postmark")
            forged = http.post("/hooks/mailgun", json=_signed("another"))
            assert (forged.status_code, "the signature is wrong" in forged.text) == (403, True)
            assert http.post("/hooks/mailgun", json=_signed(secret)).status_code == 200
            assert http.post("/hooks/mailgun", json=_signed(secret)).status_code == 406
        at_work.waits_for("mailgun")


def _signed(key: str) -> dict[str, object]:
    """Return an event as Mailgun signs it."""
    stamp, token = str(int(time.time())), f"token-of-{key[:8]}"
    signature = hmac.new(key.encode(), f"{stamp}{token}".encode(), hashlib.sha256).hexdigest()
    return {
        "signature": {"timestamp": stamp, "token": token, "signature": signature},
        "event-data": {"event": "failed", "severity": "permanent", "recipient": "a@b.example"},
    }
