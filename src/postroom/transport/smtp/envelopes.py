"""An email made ready for one server: its content and its commands, or why it cannot be sent."""

from __future__ import annotations

from postroom.domain.errors import Invalid
from postroom.mail.envelope import envelope_address
from postroom.transport.contract import Result, ResultKind, Scope
from postroom.transport.smtp.offers import Offers
from postroom.transport.smtp.work import Email


def prepare(email: Email, offers: Offers, host: str) -> Result | None:
    """Compose the email and its commands; a result when this server cannot take it."""
    batch = email.batch
    utf8 = batch.utf8
    address: str = email.recipient.address
    if not batch.plain:
        try:
            address = envelope_address(email.recipient.address)
        except Invalid as exc:
            return Result(
                ResultKind.REFUSED, str(exc), reason="Mail cannot be sent to this address"
            )
        utf8 = utf8 or not address.isascii()
    if utf8 and not offers.smtputf8:
        return _needs_smtputf8(email, host)
    if not email.content:
        try:
            email.content = batch.mailing.wire(email.recipient)
        except Invalid as exc:
            return Result(
                ResultKind.REFUSED, str(exc), reason="Mail cannot be sent to this address"
            )
        except Exception as exc:  # whatever it is: the other emails of the batch must go on
            return _held(f"the mail cannot be composed: {exc!r}", "The message cannot be composed")
    mail = batch.mail_command
    if offers.size is not None:
        size = len(email.content)
        if offers.size and size > offers.size and _is_too_large(email, offers.size):
            return _held(
                f"the mail has {size} bytes; {host} takes at most {offers.size}",
                "The message is too large for the mail server",
            )
        mail = f"{mail} SIZE={size}"
    if utf8:
        mail += " SMTPUTF8"
    email.envelope = f"{mail}\r\nRCPT TO:<{address}>\r\nDATA\r\n".encode()
    return None


def _needs_smtputf8(email: Email, host: str) -> Result:
    if email.batch.utf8:
        return _held(
            f"{host} does not offer SMTPUTF8, which this message's own headers need:"
            " use a From address in ASCII",
            "The mail server does not support this From address",
        )
    return Result(
        ResultKind.REFUSED,
        f"{host} does not offer SMTPUTF8, which this address needs (RFC 6531)",
        reason="The mail server does not support this address",
    )


def _held(problem: str, reason: str) -> Result:
    return Result(ResultKind.HELD, problem, Scope.MESSAGE, reason)


def _is_too_large(email: Email, limit: int) -> bool:
    # RFC 1870 3: doubled dots do not count.
    return len(email.batch.mailing.mail(email.recipient)) > limit
