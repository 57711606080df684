"""From bytes as they arrive to replies."""

from __future__ import annotations

from postroom.transport.reply_parsing import Reply, parse_reply

LONGEST_LINE = 4096  # RFC 5321 4.5.3.1.5: 512 octets; servers exceed it, within reason
MOST_LINES = 200  # of one reply


class ReplyReader:
    """Collects bytes until they are replies. Its memory is bounded, whatever a server sends.

    `problem` says what was no reply: the server does not speak SMTP, or never ends a line. Then the
    connection must be closed; replies that arrived before the garbage are still good.
    """

    __slots__ = ("_lines", "_rest", "after_problem", "is_empty", "problem")

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []
        self.is_empty = True  # no reply has begun to arrive
        self.problem = ""
        self.after_problem: list[Reply] = []
        """Replies that arrived together with the garbage, after it."""

    def feed(self, data: bytes) -> list[Reply]:
        """Return the replies that are complete now, up to the first problem."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        self.is_empty = False
        replies: list[Reply] = []
        for raw in lines:
            reply = self._add(raw.rstrip(b"\r"))
            if reply is not None:
                (self.after_problem if self.problem else replies).append(reply)
        if len(self._rest) > LONGEST_LINE:
            self._fail("a reply line that does not end")
        self.is_empty = not self._rest and not self._lines
        return replies

    def _add(self, line: bytes) -> Reply | None:
        """Return the reply that this line completes, if it does."""
        if len(line) > LONGEST_LINE:
            self._fail("a reply line that is too long")
            return None
        self._lines.append(line)
        if line[3:4] == b"-" and line[:3].isdigit():
            if len(self._lines) > MOST_LINES:
                self._fail("a reply that does not end")
            return None
        reply = parse_reply(self._lines)
        self._lines = []
        if reply is None:
            self._fail(f"not a reply: {line[:80].decode('ascii', 'replace')!r}")
        return reply

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem
        self._lines = []
