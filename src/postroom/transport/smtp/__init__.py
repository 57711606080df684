"""SMTP, pipelined and pooled.

    SmtpTransport ──▶ Pool ──▶ Connection (asyncio) ──▶ Dialogue (decides, has no socket)
                                                            │
                                          Work: the emails of all batches that wait

A dialogue takes its next email from the work itself, when the reply to the last one arrives: no
task, future or queue stands between the emails of a connection.
"""

from postroom.transport.smtp.address import SmtpServer, Tls, parse_servers
from postroom.transport.smtp.timeouts import Timeouts
from postroom.transport.smtp.transport import SmtpTransport

__all__ = ["SmtpServer", "SmtpTransport", "Timeouts", "Tls", "parse_servers"]
