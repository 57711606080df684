"""How long each step may take."""

from __future__ import annotations

import msgspec

from postroom.transport.reply_parsing import Stage


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds. The long ones are the least that RFC 5321 4.5.3.2 asks of a client."""

    connect: float = 30.0
    """TCP and TLS; beyond it another server is tried."""

    greeting: float = 300.0  # 4.5.3.2.1

    silence: float = 3.0
    """After which a server without a greeting is asked whether it expects TLS from the first
    byte."""

    command: float = 300.0  # 4.5.3.2.2 MAIL, 4.5.3.2.3 RCPT
    data: float = 120.0  # 4.5.3.2.4
    block: float = 180.0  # 4.5.3.2.5: a part of the mail that the server does not take
    content: float = 600.0  # 4.5.3.2.6: shorter ones make duplicates

    quit: float = 2.0
    """A good-bye that nobody answers."""

    idle: float = 30.0
    """After which an unused connection says good-bye: well below the patience of servers."""

    patience: float = 5.0
    """How long emails wait while no server can be reached, before they are held."""

    cancelled: float = 5.0
    """How long a cancelled `send` waits for replies to what was handed over."""

    def for_stage(self, stage: Stage) -> float:
        if stage is Stage.CONTENT:
            return self.content
        if stage is Stage.DATA:
            return self.data
        return self.command

    @property
    def tick(self) -> float:
        """How often to look whether something has taken too long."""
        shortest = min(self.command, self.data, self.block, self.content, self.idle)
        return min(1.0, max(0.01, shortest / 4))
