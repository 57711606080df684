"""A mail server that records every email and misbehaves on request. It runs as a separate program.

    python recording_smtp_server.py SETTINGS.json

An email that was received up to its final dot is recorded, in one write, *before* it is answered:
so what the server saw is known even when the connection is dropped there. Rules are read again when
their file is replaced. Connections, and each rule that acts, are written down in a second file.
Only Python's own library is needed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import socket
import ssl
import struct
import sys
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

STAGES = ("greeting", "EHLO", "STARTTLS", "AUTH", "RSET", "MAIL", "RCPT", "DATA", "content", "end")
"""`content` is the middle of the mail; `end` is after its final dot."""


class Gone(Exception):
    """The connection ended, on either side."""


class Rules:
    """What to do instead of the ordinary, by stage and address. The first that matches counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = (-1, -1)
        self._rules: list[dict[str, Any]] = []
        self._used: Counter[tuple[int, str]] = Counter()
        self._passed: dict[int, deque[float]] = {}

    def find(self, stage: str, subject: str) -> dict[str, Any] | None:
        found = self._path.stat()
        stamp = (found.st_mtime_ns, found.st_ino)  # two changes may have the same time
        if stamp != self._stamp:
            self._stamp = stamp
            self._rules = json.loads(self._path.read_text())
            self._used.clear()
            self._passed.clear()
        for number, rule in enumerate(self._rules):
            if rule["stage"] == stage and re.search(rule["match"], subject):
                if rule["above"] and self._lets_pass(number, rule["above"]):
                    continue
                key = (number, subject if rule["each"] else "")
                if rule["times"] is None or self._used[key] < rule["times"]:
                    self._used[key] += 1
                    return rule
        return None

    def _lets_pass(self, number: int, most: int) -> bool:
        """Whether fewer than `most` have passed this rule within the last second."""
        now, passed = time.monotonic(), self._passed.setdefault(number, deque())
        while passed and passed[0] <= now - 1.0:
            passed.popleft()
        if len(passed) >= most:
            return False
        passed.append(now)
        return True


class Session:
    """One connection."""

    def __init__(
        self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._settings = server.settings
        self._name = f"{os.getpid()}.{server.next_connection()}"
        self._reader = reader
        self._writer = writer
        self._buffer = b""
        self._replies: list[bytes] = []
        self._sender: str | None = None
        self._recipients: list[str] = []
        self._is_secure = bool(self._settings["implicit_tls"])
        self._is_logged_in = False

    async def run(self) -> None:
        self._server.note("", "", "")
        if not await self._act("greeting", ""):
            self._say("220 recorder.test ESMTP")
        while True:
            line = (await self._line()).decode("utf-8", "surrogateescape")
            verb, _, argument = line.partition(" ")
            handler = getattr(self, f"_on_{verb.lower()}", None)
            if handler is None:
                self._say("500 5.5.2 not recognised")
            else:
                await handler(argument.strip())

    # — Commands —

    async def _on_ehlo(self, argument: str) -> None:
        if await self._act("EHLO", argument):
            return
        offers = ["recorder.test", "ENHANCEDSTATUSCODES", "8BITMIME"]
        if self._settings["pipelining"]:
            offers.append("PIPELINING")
        if self._settings["smtputf8"]:
            offers.append("SMTPUTF8")
        if self._settings["size"]:
            offers.append(f"SIZE {self._settings['size']}")
        if self._settings["certificate"] and not self._is_secure:
            offers.append("STARTTLS")
        if self._settings["user"]:
            offers.append(f"AUTH {self._settings['mechanisms']}")
        for offer in offers[:-1]:
            self._say(f"250-{offer}")
        self._say(f"250 {offers[-1]}")

    async def _on_helo(self, argument: str) -> None:
        if not await self._act("EHLO", argument):
            self._say("250 recorder.test")

    async def _on_starttls(self, argument: str) -> None:
        if await self._act("STARTTLS", argument):
            return
        if self._server.context is None or self._is_secure:
            self._say("503 5.5.1 not offered")
            return
        self._say("220 2.0.0 go ahead")
        await self._flush()
        self._buffer = b""  # RFC 3207 4.2: forget what came before
        await self._writer.start_tls(self._server.context)
        self._is_secure = True

    async def _on_auth(self, argument: str) -> None:
        if await self._act("AUTH", argument):
            return
        mechanism, _, initial = argument.partition(" ")
        if mechanism.upper() == "PLAIN":
            _, user, password = base64.b64decode(initial).decode().split("\0")
        else:
            user, password = await self._asked("Username:"), await self._asked("Password:")
        self._is_logged_in = (user, password) == (
            self._settings["user"],
            self._settings["password"],
        )
        self._say("235 2.7.0 welcome" if self._is_logged_in else "535 5.7.8 wrong credentials")

    async def _asked(self, question: str) -> str:
        self._say(f"334 {base64.b64encode(question.encode()).decode()}")
        return base64.b64decode(await self._line()).decode()

    async def _on_mail(self, argument: str) -> None:
        sender = _address(argument)
        if await self._act("MAIL", sender):
            return
        if self._settings["user"] and not self._is_logged_in:
            self._say("530 5.7.0 authentication required")
        elif self._sender is not None:
            self._say("503 5.5.1 nested MAIL")
        else:
            self._sender = sender
            self._say("250 2.1.0 sender ok")

    async def _on_rcpt(self, argument: str) -> None:
        recipient = _address(argument)
        if await self._act("RCPT", recipient):
            return
        if self._sender is None:
            self._say("503 5.5.1 need MAIL first")
        else:
            self._recipients.append(recipient)
            self._say("250 2.1.5 recipient ok")

    async def _on_data(self, argument: str) -> None:
        subject = " ".join(self._recipients)
        if await self._act("DATA", subject):
            return
        if self._sender is None:
            self._say("503 5.5.1 need MAIL first")
        elif not self._recipients and not self._settings["lenient_data"]:
            self._say("554 5.5.1 no valid recipients")
        else:
            self._say("354 end with a dot")
            await self._receive(subject)

    async def _on_rset(self, argument: str) -> None:
        if not await self._act("RSET", argument):
            self._forget()
            self._say("250 2.0.0 forgotten")

    async def _on_noop(self, argument: str) -> None:
        self._say("250 2.0.0 still here")

    async def _on_quit(self, argument: str) -> None:
        self._say("221 2.0.0 bye")
        await self._flush()
        raise Gone

    # — Content —

    async def _receive(self, subject: str) -> None:
        rule = self._server.rules.find("content", subject)
        content = await self._content(rule, subject)
        if not self._recipients:
            self._forget()
            self._say("554 5.5.1 no valid recipients")
            return
        rule = self._server.rules.find("end", subject)
        reply = "250 2.0.0 recorded"
        if rule is not None and (rule["reply"] or rule["drop"] or rule["reset"]):
            reply = rule["reply"]
        self._server.record(self._name, self._sender or "", self._recipients, content, reply)
        self._forget()
        if rule is None or not await self._obey(rule, subject):
            self._say(reply)

    async def _content(self, rule: dict[str, Any] | None, subject: str) -> bytes:
        """Everything up to the final dot; a rule interrupts in the middle."""
        content = bytearray(b"\r\n")
        while True:
            searched = max(0, len(content) - 4)
            content += self._buffer
            self._buffer = b""
            if rule is not None and len(content) - 2 > rule["after"]:
                await self._obey(rule, subject)
                rule = None
            end = content.find(b"\r\n.\r\n", searched)
            if end >= 0:
                self._buffer = bytes(content[end + 5 :])
                mail = bytes(content[2 : end + 2])
                return mail.replace(b"\r\n..", b"\r\n.").removeprefix(b".")
            await self._fill()

    def _forget(self) -> None:
        self._sender, self._recipients = None, []

    # — Rules —

    async def _act(self, stage: str, subject: str) -> bool:
        """Do what a rule wants here, if one does; then the ordinary is not done."""
        rule = self._server.rules.find(stage, subject)
        return rule is not None and await self._obey(rule, subject)

    async def _obey(self, rule: dict[str, Any], subject: str) -> bool:
        self._server.note(rule["stage"], subject, rule["reply"])
        if rule["wait"]:
            await self._flush()
            await asyncio.sleep(rule["wait"])
        if rule["reply"]:
            self._say(rule["reply"])
        if rule["drop"] or rule["reset"]:
            await self._flush()
            if rule["reset"]:
                self._reset()
            raise Gone
        return bool(rule["reply"])

    # — Bytes —

    def _reset(self) -> None:
        """Close with a reset instead of the usual end."""
        no_linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, no_linger
        )
        self._writer.transport.abort()

    def _say(self, reply: str) -> None:
        self._replies.append(reply.encode("utf-8", "surrogateescape") + b"\r\n")

    async def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            await self._fill()
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    async def _fill(self) -> None:
        await self._flush()
        data = await self._reader.read(1 << 16)
        if not data:
            raise Gone
        self._buffer += data

    async def _flush(self) -> None:
        if self._replies:
            if self._settings["delay"]:
                await asyncio.sleep(self._settings["delay"])
            self._writer.write(b"".join(self._replies))
            self._replies.clear()
            await self._writer.drain()


def _address(argument: str) -> str:
    found = re.search(r"<([^>]*)>", argument)
    return found[1] if found else ""


class Server:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.rules = Rules(Path(settings["rules"]))
        self.context: ssl.SSLContext | None = None
        if settings["certificate"]:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(settings["certificate"])
        self._connections = 0
        self._record = _open_to_append(settings["record"])
        self._events = _open_to_append(settings["events"])

    def note(self, stage: str, subject: str, reply: str) -> None:
        """Write down that a rule acted or, without a stage, that somebody connected."""
        entry = {"at": time.time(), "stage": stage, "subject": subject, "reply": reply}
        os.write(self._events, json.dumps(entry).encode() + b"\n")

    def next_connection(self) -> int:
        self._connections += 1
        return self._connections

    def record(
        self, connection: str, sender: str, recipients: list[str], content: bytes, reply: str
    ) -> None:
        kept = content if self.settings["keep_content"] else content.partition(b"\r\n\r\n")[0]
        entry = {
            "at": time.time(),
            "connection": connection,
            "sender": sender,
            "recipients": recipients,
            "content": kept.decode("latin-1"),
            "reply": reply,
        }
        os.write(self._record, json.dumps(entry).encode() + b"\n")

    async def serve(self) -> None:
        server = await asyncio.start_server(
            self._connected,
            "127.0.0.1",
            self.settings["port"],
            ssl=self.context if self.settings["implicit_tls"] else None,
            backlog=1024,
        )
        async with server:
            os.close(_open_to_append(self.settings["listening"]))
            await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await Session(self, reader, writer).run()
        except (Gone, OSError):
            pass
        finally:
            writer.close()


def _open_to_append(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")  # ends the line in which an earlier server was killed
    return descriptor


if __name__ == "__main__":
    asyncio.run(Server(json.loads(Path(sys.argv[1]).read_text())).serve())
