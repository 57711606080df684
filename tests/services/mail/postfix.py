"""A real Postfix with its own configuration and ports, which delivers to nowhere."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.services.missing import require
from tests.services.process import ServiceProcess, folder_for
from tests.services.waiting import LOOPBACK, accepts_connections, free_ports

_DAEMONS = "/usr/lib/postfix/sbin"
# The queue manager is woken every second: if it wants to try a mail again before the last attempt
# is quite over ("skipped, still being delivered"), it looks at it again when it is woken.
_INTERNAL = """\
pickup    unix  n - n 60 1 pickup
cleanup   unix  n - n -  0 cleanup
qmgr      unix  n - n 1 1 qmgr
rewrite   unix  - - n -  - trivial-rewrite
bounce    unix  - - n -  0 discard
defer     unix  - - n -  0 discard
trace     unix  - - n -  0 discard
proxymap  unix  - - n -  - proxymap
anvil     unix  - - n -  1 anvil
error     unix  - - n -  - error
retry     unix  - - n -  - error
discard   unix  - - n -  - discard
postlog   unix-dgram n - n - 1 postlogd
"""


@dataclass(frozen=True, slots=True)
class Postfix:
    """`url` is its port for other servers, which takes mail for `local.example` alone;
    `submission_url` is that for people, which wants a login. Its configuration is in `folder`."""

    url: str
    submission_url: str
    folder: Path


@contextmanager
def running_postfix(
    *, size_limit: int = 0, rejected_subject: str = "", routes: Mapping[str, str] | None = None
) -> Iterator[Postfix]:
    """Start Postfix and stop it in the end. It accepts `known@local.example`, relays nothing, and
    rejects content by its subject, as a milter would. With `routes` (domain → next hop),
    it also takes mail for these domains, and writes bounces."""
    program = shutil.which("postfix", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None or not Path(_DAEMONS).is_dir():
        require("Postfix", "apt-get install postfix")
    if os.geteuid() != 0:
        pytest.skip("Postfix must be started by root")
    port, submission = free_ports(2)
    with folder_for("postfix", None) as folder:
        folder.chmod(0o755)  # its daemons run as another user
        for name in ("queue", "data"):
            (folder / name).mkdir()
        shutil.chown(folder / "data", "postfix")
        _configure(folder, port, submission, size_limit, rejected_subject)
        if routes:
            _relay(folder, routes)
        subprocess.run([program, "-c", folder, "check"], check=True)  # makes its folders
        # Its own start would leave `master` behind: that becomes the leader of another session.
        process = ServiceProcess(
            name="Postfix",
            command=[f"{_DAEMONS}/master", "-c", str(folder), "-d"],
            folder=folder,
            is_ready=lambda: accepts_connections(port) and accepts_connections(submission),
        )
        process.start()
        try:
            yield Postfix(f"smtp://{LOOPBACK}:{port}", f"smtp://{LOOPBACK}:{submission}", folder)
        finally:
            process.stop()


def _configure(
    folder: Path, port: int, submission: int, size_limit: int, rejected_subject: str
) -> None:
    settings = {
        "compatibility_level": "3.6",
        "queue_directory": f"{folder}/queue",
        "data_directory": f"{folder}/data",
        "daemon_directory": _DAEMONS,
        "command_directory": "/usr/sbin",
        "maillog_file": f"{folder}/maillog",
        "maillog_file_prefixes": str(folder),
        "myhostname": "mx.local.example",
        "mydestination": "local.example",
        "mynetworks": "192.0.2.0/24",
        "inet_interfaces": LOOPBACK,
        "inet_protocols": "ipv4",
        "local_recipient_maps": "inline:{known=1}",
        "alias_maps": "",
        "local_transport": "discard:",
        "default_transport": "discard:",
        "smtpd_relay_restrictions": "permit_mynetworks, reject_unauth_destination",
        "message_size_limit": str(size_limit or 10_240_000),
    }
    if rejected_subject:
        (folder / "checks").write_text(f"/^Subject: {rejected_subject}/ REJECT\n")
        settings["header_checks"] = f"regexp:{folder}/checks"
    lines = [f"{name} = {value}" for name, value in settings.items()]
    (folder / "main.cf").write_text("\n".join(lines) + "\n")
    wants_login = "-o smtpd_client_restrictions=permit_sasl_authenticated,reject"
    (folder / "master.cf").write_text(
        f"{LOOPBACK}:{port} inet n - n - - smtpd\n"
        f"{LOOPBACK}:{submission} inet n - n - - smtpd {wants_login}\n{_INTERNAL}"
    )


def _relay(folder: Path, routes: Mapping[str, str]) -> None:
    """Let Postfix deliver mail for these domains, and bounces to their senders."""
    hops = ", ".join(f"{{ {domain} = {hop} }}" for domain, hop in routes.items())
    with (folder / "main.cf").open("a") as file:
        file.write(
            f"relay_domains = {', '.join(routes)}\ntransport_maps = inline:{{{hops}}}\n"
            "maximal_backoff_time = 1s\nminimal_backoff_time = 1s\nqueue_run_delay = 1s\n"
            "smtp_tls_security_level = none\n"
        )
    services = (folder / "master.cf").read_text()
    for name in ("bounce", "defer", "trace"):
        services = services.replace(
            f"{name:<9} unix  - - n -  0 discard", f"{name:<9} unix  - - n -  0 bounce"
        )
    services += "lmtp      unix  - - n -  - lmtp\nsmtp      unix  - - n -  - smtp\n"
    (folder / "master.cf").write_text(services)
