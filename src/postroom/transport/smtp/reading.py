"""From bytes as they arrive to replies."""

from __future__ import annotations

from postroom.transport.replies import Reply, parse_reply

LONGEST_LINE = 4096  # RFC 5321 4.5.3.1.5: 512 octets; servers exceed it, within reason
MOST_LINES = 200  # of one reply


class BadReply(Exception):
    """The server does not speak SMTP, or never ends a line."""


class ReplyReader:
    """Collects bytes until they are replies. Its memory is bounded, whatever a server sends."""

    __slots__ = ("_lines", "_rest", "is_empty")

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []
        self.is_empty = True  # no reply has begun to arrive

    def feed(self, data: bytes) -> list[Reply]:
        """The replies that are complete now. `BadReply`."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LONGEST_LINE:
            raise BadReply("a reply line that does not end")
        self.is_empty = False
        replies: list[Reply] = []
        for raw in lines:
            line = raw.rstrip(b"\r")
            if len(line) > LONGEST_LINE:
                raise BadReply("a reply line that is too long")
            self._lines.append(line)
            if line[3:4] == b"-" and line[:3].isdigit():
                if len(self._lines) > MOST_LINES:
                    raise BadReply("a reply that does not end")
                continue
            reply = parse_reply(self._lines)
            if reply is None:
                raise BadReply(f"not a reply: {line[:80].decode('ascii', 'replace')!r}")
            self._lines = []
            replies.append(reply)
        self.is_empty = not self._rest and not self._lines
        return replies
