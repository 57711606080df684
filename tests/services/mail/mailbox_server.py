"""A mailbox server that speaks enough IMAP (RFC 3501, 4315, 6851) and POP3 (RFC 1939, 2595) for a
client that fetches emails and marks them as processed."""

from __future__ import annotations

import asyncio
import shlex
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

USER, PASSWORD = "bounces@example.com", "pass word"


@dataclass
class Mailbox:
    """Folders of emails by UID. `capabilities` are those of IMAP."""

    capabilities: str = "IMAP4rev1 UIDPLUS MOVE"
    hangs_up: bool = False
    """Whether it closes the connection when it cannot read a mail, as Dovecot does."""
    folders: dict[str, dict[int, bytes]] = field(default_factory=lambda: {"INBOX": {}})
    last_uid: int = 0
    deleted: set[int] = field(default_factory=set)
    commands: list[str] = field(default_factory=list)
    dies_after: str = ""
    """A command after whose execution the connection breaks, once."""
    damaged: set[int] = field(default_factory=set)
    """UIDs of mails that the server cannot read."""
    pause: float = 0.0
    """Seconds before each reply."""
    tls: ssl.SSLContext | None = None
    """What it offers STARTTLS with."""

    def add(self, *mails: bytes) -> None:
        inbox = self.folders["INBOX"]
        for mail in mails:
            self.last_uid += 1
            inbox[self.last_uid] = mail.replace(b"\n", b"\r\n")

    def _breaks(self, verb: str) -> bool:
        breaks, self.dies_after = (
            verb == self.dies_after,
            "" if verb == self.dies_after else self.dies_after,
        )
        return breaks

    async def imap(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK ready\r\n")
        while line := (await reader.readline()).decode().strip():
            tag, verb, rest = [*line.split(" ", 2), ""][:3]
            if verb.upper() == "UID":
                verb, _, rest = rest.partition(" ")
            self.commands.append(verb.upper())
            await asyncio.sleep(self.pause)
            if verb.upper() == "STARTTLS" and self.tls is not None:
                writer.write(f"{tag} OK begin\r\n".encode())
                await writer.start_tls(self.tls)
                continue
            status = self._imap(verb.upper(), rest, writer)
            if self._breaks(verb.upper()):
                break
            writer.write(f"{tag} {status}\r\n".encode())
            if verb.upper() == "LOGOUT":
                break
        writer.close()

    def _imap(self, verb: str, rest: str, writer: asyncio.StreamWriter) -> str:
        inbox = self.folders["INBOX"]
        uid = int(rest.split(" ")[0]) if rest.split(" ")[0].isdigit() else 0
        folder = [*shlex.split(rest), ""][-2 if rest else 0]
        match verb:
            case "CAPABILITY":
                before = "IMAP4rev1" if self.tls is None else "IMAP4rev1 STARTTLS"
                offered = self.capabilities if "LOGIN" in self.commands else before
                writer.write(f"* CAPABILITY {offered}\r\n".encode())
            case "LOGIN":
                if rest != f'{USER} "{PASSWORD}"':
                    return "NO wrong password"
                writer.write(f"* CAPABILITY {self.capabilities}\r\n".encode())  # as Dovecot does
            case "CREATE":
                if folder in self.folders:
                    return "NO it exists"
                self.folders[folder] = {}
            case "SELECT":
                writer.write(f"* {len(inbox)} EXISTS\r\n".encode())
            case "SEARCH":
                found = " ".join(str(each) for each in inbox if each not in self.deleted)
                writer.write(f"* SEARCH {found}".rstrip().encode() + b"\r\n")
            case "FETCH" if uid in self.damaged:
                if self.hangs_up:
                    raise ConnectionAbortedError
                return "NO [SERVERBUG] Internal error"
            case "FETCH":
                mail = inbox[uid]
                writer.write(f"* 1 FETCH (UID {uid} BODY[] {{{len(mail)}}}\r\n".encode())
                writer.write(mail + b")\r\n")
            case "MOVE":
                self.folders[folder][uid] = inbox.pop(uid)
            case "COPY":
                self.folders[folder][uid] = inbox[uid]
            case "STORE":
                self.deleted.add(uid)
            case "EXPUNGE":
                inbox.pop(uid)
            case "LOGOUT":
                writer.write(b"* BYE\r\n")
        return "OK done"

    async def pop3(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"+OK ready\r\n")
        inbox, marked = self.folders["INBOX"], set()
        numbers = dict(enumerate(list(inbox), 1))
        while line := (await reader.readline()).decode().strip():
            verb, _, rest = line.partition(" ")
            self.commands.append(verb)
            match verb:
                case "CAPA":
                    extensions = "" if self.tls is None else "STLS\r\n"
                    writer.write(f"+OK\r\nUSER\r\n{extensions}.\r\n".encode())
                    continue
                case "STLS" if self.tls is not None:
                    writer.write(b"+OK begin\r\n")
                    await writer.start_tls(self.tls)
                    continue
                case "PASS" if rest != PASSWORD:
                    writer.write(b"-ERR wrong password\r\n")
                    continue
                case "LIST":
                    lines = "".join(f"{n} {len(inbox[uid])}\r\n" for n, uid in numbers.items())
                    writer.write(f"+OK\r\n{lines}.\r\n".encode())
                    continue
                case "RETR" if numbers[int(rest)] in self.damaged:
                    writer.write(b"-ERR internal error\r\n")
                    continue
                case "RETR":
                    mail = inbox[numbers[int(rest)]].replace(b"\r\n.", b"\r\n..")
                    writer.write(b"+OK\r\n" + mail + b"\r\n.\r\n")
                    continue
                case "DELE":
                    marked.add(numbers[int(rest)])
            if self._breaks(verb):
                break
            writer.write(b"+OK\r\n")
            if verb == "QUIT":
                for uid in marked:
                    inbox.pop(uid)
                break
        writer.close()


@asynccontextmanager
async def serving(mailbox: Mailbox, protocol: str) -> AsyncIterator[int]:
    """Serve a mailbox on a free port of the loopback address."""
    talk = mailbox.imap if protocol == "imap" else mailbox.pop3

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (ConnectionError, ssl.SSLError):  # the client was killed, or one of us hangs up
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
