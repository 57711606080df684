"""Where each transport sends to, as the shared suite of transports needs it: something that counts
copies, refuses a recipient, never answers, or is not there."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from postroom.transport.contract import Transport
from postroom.transport.http.http_transport import HttpTransport
from postroom.transport.outbox_transport import OutboxTransport
from postroom.transport.sendgrid import SendgridProvider
from postroom.transport.smtp.servers import Timeouts, parse_servers
from postroom.transport.smtp.smtp_transport import SmtpTransport
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.mail.sendgrid_api import SendgridApi, running_sendgrid_api
from tests.services.waiting import LOOPBACK, free_ports

ANSWER_SECONDS = 1.0
GRACE_SECONDS = 0.3


class Destination(ABC):
    """What a transport sends to. `transport` knows the password or key `geheim`, if any."""

    transport: Transport

    @abstractmethod
    def copies(self) -> Counter[str]:
        """Return how often each address got its email."""

    def refuse(self, name: str) -> None:
        """Refuse recipients with this name from now on."""
        raise NotImplementedError

    def stop_answering(self) -> None:
        """Accept emails without ever saying so."""
        raise NotImplementedError

    @abstractmethod
    def unreachable(self) -> Transport:
        """Return a transport of the same kind with nothing behind it."""


class SmtpDestination(Destination):
    def __init__(self, server: RecordingSmtp) -> None:
        self._server = server
        self.transport = self._open(server.url.replace("//", "//me:geheim@"))

    def _open(self, url: str) -> Transport:
        timeouts = Timeouts(
            content=ANSWER_SECONDS, cancelled=GRACE_SECONDS, patience=0.2, quit=GRACE_SECONDS
        )
        return SmtpTransport(parse_servers(url), connections=2, timeouts=timeouts)

    def copies(self) -> Counter[str]:
        return Counter(self._server.copies())

    def refuse(self, name: str) -> None:
        self._server.script(Rule("RCPT", f"{name}@", "550 5.1.1 user unknown"))

    def stop_answering(self) -> None:
        self._server.script(Rule("end", "", wait=30))

    def unreachable(self) -> Transport:
        return self._open(f"smtp://{LOOPBACK}:{free_ports(1)[0]}")


class SendgridDestination(Destination):
    def __init__(self, api: SendgridApi) -> None:
        self._api = api
        self.transport = self._open(api.host)

    def _open(self, host: str) -> Transport:
        return HttpTransport(
            SendgridProvider("SG.geheim"),
            base_url=f"http://{host}",
            connections=2,
            answer_seconds=ANSWER_SECONDS,
            grace=GRACE_SECONDS,
        )

    def copies(self) -> Counter[str]:
        return Counter(
            each["to"][0]["email"] for call in self._api.sent for each in call["personalizations"]
        )

    def refuse(self, name: str) -> None:
        async def reply(call: dict[str, Any]) -> web.StreamResponse:
            errors = [
                {"message": "invalid address", "field": f"personalizations.{index}.to"}
                for index, each in enumerate(call["personalizations"])
                if each["to"][0]["email"].startswith(f"{name}@")
            ]
            if errors:
                return web.json_response({"errors": errors}, status=400)
            return await self._api.accept(call)

        self._api.reply = reply

    def stop_answering(self) -> None:
        async def reply(call: dict[str, Any]) -> web.StreamResponse:
            await asyncio.sleep(30)
            return web.Response()

        self._api.reply = reply

    def unreachable(self) -> Transport:
        return self._open(f"{LOOPBACK}:{free_ports(1)[0]}")


class OutboxDestination(Destination):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.transport = OutboxTransport(folder / "outbox")

    def copies(self) -> Counter[str]:
        return Counter(name.split("-")[1] for name in os.listdir(self._folder / "outbox"))

    def unreachable(self) -> Transport:
        (self._folder / "not a folder").write_text("")
        return OutboxTransport(self._folder / "not a folder")


REMOTE = ("smtp", "sendgrid")
LOCAL = ("outbox",)


@asynccontextmanager
async def running_destination(kind: str, folder: Path) -> AsyncIterator[Destination]:
    if kind == "outbox":
        yield OutboxDestination(folder)
    elif kind == "smtp":
        with running_recording_smtp(user="me", password="geheim") as server:
            yield SmtpDestination(server)
    else:
        async with running_sendgrid_api() as api:
            yield SendgridDestination(api)
