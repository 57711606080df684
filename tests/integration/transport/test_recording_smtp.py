"""The recording SMTP server follows new rules at once, and counts what it saw."""

import smtplib

import pytest

from tests.services.mail.recording_smtp import Rule, running_recording_smtp

pytestmark = pytest.mark.timeout(30)
MAIL = "Subject: x\r\n\r\nx\r\n"


def test_faults_can_be_changed_while_connections_are_open() -> None:
    with running_recording_smtp() as server:
        assert server.connections() == 0
        with smtplib.SMTP(server.host, server.port, timeout=60) as client:
            client.sendmail("news@example.com", ["a@one.example"], MAIL)

            server.script(Rule("RCPT", r"@two\.example$", "451 4.7.0 slow down"))
            client.sendmail("news@example.com", ["b@one.example"], MAIL)
            with pytest.raises(smtplib.SMTPRecipientsRefused):
                client.sendmail("news@example.com", ["a@two.example"], MAIL)

            for _ in range(20):  # however quickly one change follows the other
                server.script(Rule("RCPT", "", "550 5.1.1 no"))
                assert client.verify("x")[0] == 500  # anything, to keep the connection busy
                server.script()
                client.sendmail("news@example.com", ["c@two.example"], MAIL)

        recipients = [each.recipients[0] for each in server.received()]
        assert recipients == ["a@one.example", "b@one.example"] + ["c@two.example"] * 20
        [fault] = server.faults()
        assert (fault.stage, fault.subject) == ("RCPT", "a@two.example")
        assert fault.reply == "451 4.7.0 slow down"
        assert server.connections() == 1


def test_a_reset_and_a_restart() -> None:
    with running_recording_smtp(Rule("DATA", reset=True)) as server:
        client = smtplib.SMTP(server.host, server.port, timeout=60)
        with pytest.raises((ConnectionResetError, smtplib.SMTPServerDisconnected)):
            client.sendmail("news@example.com", ["a@one.example"], MAIL)

        server.stop()
        with pytest.raises(ConnectionRefusedError):
            smtplib.SMTP(server.host, server.port, timeout=60)
        server.start()
        server.script()
        with smtplib.SMTP(server.host, server.port, timeout=60) as again:
            again.sendmail("news@example.com", ["a@one.example"], MAIL)

        assert server.connections() == 2
        assert len(server.received()) == 1
