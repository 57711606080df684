"""SMTP, pipelined and pooled.

    SmtpTransport ──▶ ConnectionPool ──▶ SmtpConnection (asyncio) ──▶ Dialogue (has no socket)
                                                                          │
                                            Backlog: the waiting emails of all batches

A dialogue takes its next email from the backlog itself, when the reply to the last one arrives: no
task, future or queue stands between the emails of a connection.
"""
