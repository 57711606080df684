"""Azurite: an emulator of Azure Storage's blobs, queues and tables."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.services.missing import require
from tests.services.process import ServiceProcess, folder_for
from tests.services.waiting import LOOPBACK, accepts_connections, free_ports

PROGRAM = Path(__file__).parents[3] / "node_modules/azurite/dist/src/azurite.js"

# The account and key that every Azure Storage emulator has; they protect nothing.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

# Accounts are isolated from each other, and have to be named before Azurite starts: in one
# environment variable, which Linux limits to 128 KB. These take 100 KB.
SPARE_ACCOUNTS = tuple(f"test{number:04}" for number in range(1000))


@dataclass(frozen=True, slots=True)
class Azurite:
    """A running emulator. An account's tables, queues and blobs are seen in that account only."""

    blob_port: int
    queue_port: int
    table_port: int
    _spare_accounts: Iterator[str] = field(default_factory=lambda: iter(SPARE_ACCOUNTS))

    def fresh_account(self) -> str:
        """Return the name of an account that nobody has used yet."""
        return next(self._spare_accounts)

    def connection_string(self, account: str = ACCOUNT) -> str:
        """Return what an Azure client needs to reach this account."""
        ports = {"Blob": self.blob_port, "Queue": self.queue_port, "Table": self.table_port}
        endpoints = [
            f"{kind}Endpoint=http://{LOOPBACK}:{port}/{account}" for kind, port in ports.items()
        ]
        credentials = [f"AccountName={account}", f"AccountKey={KEY}"]
        return ";".join(["DefaultEndpointsProtocol=http", *credentials, *endpoints])


@contextmanager
def running_azurite(data: Path | None = None) -> Iterator[Azurite]:
    """Start an emulator with the data in a folder, or with nothing and everything in memory; stop
    it in the end."""
    node = shutil.which("node")
    if node is None or not PROGRAM.exists():
        require("Azurite", "npm ci (with Node.js: apt-get install nodejs npm)")
    blob_port, queue_port, table_port = ports = free_ports(3)
    with folder_for("azurite", user=None) as folder:
        process = ServiceProcess(
            name="Azurite",
            command=_command(node, ports, data),
            folder=folder,
            is_ready=lambda: all(accepts_connections(port) for port in ports),
            environment={
                "AZURITE_ACCOUNTS": ";".join(f"{name}:{KEY}" for name in (ACCOUNT, *SPARE_ACCOUNTS))
            },
        )
        process.start()
        try:
            yield Azurite(blob_port, queue_port, table_port)
        finally:
            process.stop()


def _command(node: str, ports: list[int], data: Path | None) -> list[str]:
    command = [node, str(PROGRAM), "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    command += ["--inMemoryPersistence"] if data is None else ["--location", str(data)]
    for kind, port in zip(("blob", "queue", "table"), ports, strict=True):
        command += [f"--{kind}Host", LOOPBACK, f"--{kind}Port", str(port)]
        # Its 5 seconds close pooled connections under a client that is just about to use them.
        command += [f"--{kind}KeepAliveTimeout", "600"]
    return command
