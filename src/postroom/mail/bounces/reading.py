"""Reads an email that arrived at a bounce address: is it a bounce, a complaint, an automatic reply
or an ordinary email, and what does it say about which recipient? Nothing here knows subscribers.

Machine-readable parts come first (RFC 3464 and RFC 5965), then the headers and texts of systems
that have none (qmail, Exchange, Domino, old Exim, Yahoo, Gmail).
"""

from __future__ import annotations

import email
import re
from collections.abc import Iterator
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import parseaddr
from enum import StrEnum

import msgspec
from flufl.bounce import all_failures

from postroom.mail.bounces.returned_text import own_text, paragraphs, text_of

_DELIVERED = ("delivered", "relayed", "expanded")
"""RFC 3464 2.3.3; everything else is a failure, whatever a system calls it."""
_DAEMON = re.compile(
    r"mailer-?daemon|post[ _-]?master|mail(er)?[-_. ]?(delivery|system|admin|gateway|service)"
    r"|mdaemon|mail delivery|system administrator|delivery subsystem|^ndr@|^bounces?@"
    r"|virus.*gateway",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"undeliver|returned mail|return(ed|ing) (to|message)|failure notice|fail(ed|ure)\b.{0,20}mail"
    r"|(mail|message)\b.{0,20}\bfail|deliver\w*\b.{0,30}\b(fail|error|status|report|delay|warning"
    r"|problem|notif)|(fail|error|delay)\w*\b.{0,20}\bdeliver|not? ?n?-?deliver|non remis"
    r"|could not (be )?deliver|delayed mail|message delayed|mail system error|user unknown"
    r"|nameserver error|processing error|unzustellbar|nicht zugestellt|no entregado|non consegnat"
    r"|не ?доставлен|メール(送信)?エラー|配信(不能|失敗|でき)|不達|退信|投递失败|無法(投遞|送達)",
    re.IGNORECASE,
)
_FAILED_TEXT = re.compile(
    r"(not|n't|unable to|could ?n[o']t|cannot|can't|failed to|problems? to|fail\w*)\b"
    r".{0,60}\bdeliver|deliver\w*\b.{0,80}\b(fail|error|problem|impossible|unsuccessful|delay|postponed|rejected)"
    r"|undeliver|did not reach|could not be (sent|reached|processed)|returned (to you|because|mail)"
    r"|permanent (fatal )?error|has been rejected|was not accepted|user (is )?unknown|unknown user"
    r"|mailbox (is )?(full|unavailable)|no such user|не может быть доставлено|无法发送",
    re.IGNORECASE | re.DOTALL,
)
_AWAY = re.compile(
    r"out of (the )?office|automatic reply|auto(matic)?[- ]?(reply|response|respond)|abwesen"
    r"|on vacation|away from|absence|réponse automatique|respuesta autom|автоответ|^auto:",
    re.IGNORECASE,
)
_CHALLENGE = re.compile(
    r"(confirm|verify|prove|authenticate)\b.{0,60}\b(you are|you're|your (message|e-?mail) (was|is)"
    r"|human|real person|not (a )?spam|delivery of (your|this))|boxtrapper|spam ?arrest|tmda"
    r"|requires (that you )?(verif|confirm)\w* (your|the) (e-?mail|sender|message)"
    r"|click .{0,60}(to deliver|release) (your|this) message|qconfirm",
    re.IGNORECASE | re.DOTALL,
)
_DELAY = re.compile(
    r"delay(ed)?\b|not yet been delivered|still being retried|warning only"
    r"|will (continue|be retried|keep)|attempts will continue|postponed|advisory-only",
    re.IGNORECASE,
)
_STATUS = re.compile(r"([245]\.[0-9]{1,3}\.[0-9]{1,3})")
_FIELD = re.compile(
    r"^(final-recipient|original-recipient|action|status|diagnostic-code):"
    r"[ \t]*(.+(?:\n[ \t]+.+)*)",
    re.IGNORECASE | re.MULTILINE,
)
_MOST_REPORTS = 50
_LONGEST_FIELD = 2000


class Nature(StrEnum):
    """What an email is."""

    BOUNCE = "bounce"
    COMPLAINT = "complaint"
    AUTO_REPLY = "auto-reply"
    CHALLENGE = "challenge"
    ORDINARY = "ordinary"


class RecipientReport(msgspec.Struct, frozen=True):
    """What a bounce says about one recipient. The address is a hint: it may be folded, or belong to
    the mailbox that the email was forwarded to."""

    address: str = ""
    status: str = ""
    diagnostic: str = ""
    is_temporary: bool = False


class ReturnedMail(msgspec.Struct, frozen=True):
    """What was read. `text` is what the mail system itself wrote, in paragraphs; `searched` is all
    text in which our own identifiers may be found, the most trustworthy first."""

    nature: Nature
    reports: tuple[RecipientReport, ...] = ()
    text: tuple[str, ...] = ()
    searched: str = ""
    message_id: str = ""


def read_mail(raw: bytes) -> ReturnedMail:
    """Return what an email is and says. Anything can be read: an email that makes no sense is
    ordinary."""
    try:
        message = email.message_from_bytes(raw)
        return _read(message)
    except (MessageError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        # The standard library's parser raises these for emails that somebody broke on purpose.
        return ReturnedMail(Nature.ORDINARY)


def _read(message: Message) -> ReturnedMail:
    text = own_text(message)
    reports = tuple(_status_reports(message))[:_MOST_REPORTS]
    nature = _nature(message, text, bool(reports))
    if nature is Nature.BOUNCE and not reports:
        reports = tuple(_guessed_reports(message, text))[:_MOST_REPORTS]
    return ReturnedMail(
        nature,
        reports,
        tuple(paragraphs(text)),
        _searched(message),
        _header(message, "message-id") or _header(message, "date"),
    )


def _nature(message: Message, text: str, has_reports: bool) -> Nature:
    feedback = _feedback_type(message)
    if feedback is not None:
        return Nature.COMPLAINT if feedback in _COMPLAINTS else Nature.ORDINARY
    if has_reports:
        return Nature.BOUNCE
    if _is_delivered_report(message):
        return Nature.ORDINARY
    subject = _header(message, "subject")
    if _CHALLENGE.search(f"{subject}\n{text}") and not _is_daemon(message):
        return Nature.CHALLENGE
    if _is_automatic(message, subject, text):
        return Nature.AUTO_REPLY
    return Nature.BOUNCE if _looks_bounced(message, subject, text) else Nature.ORDINARY


_COMPLAINTS = frozenset({"abuse", "fraud", "opt-out", "opt-out-list", "other", "virus", ""})
"""RFC 5965 7.3, RFC 6430: not `not-spam`, `auth-failure` or `dmarc`."""


def _feedback_type(message: Message) -> str | None:
    """Return the type of a feedback report in lower case; None if the email has none."""
    for part in message.walk():
        if part.get_content_type() == "message/feedback-report":
            payload = part.get_payload()
            text = str(payload[0]) if isinstance(payload, list) and payload else text_of(part)
            found = re.search(r"^feedback-type:[ \t]*([\w-]+)", text, re.I | re.M)
            return found[1].lower() if found else ""
    return None


def _is_report(message: Message) -> bool:
    """Return whether it is a report, other than that somebody has read the email (RFC 8098)."""
    kind = str(message.get_param("report-type", "")).lower()
    return message.get_content_type() == "multipart/report" and "disposition" not in kind


def _is_daemon(message: Message) -> bool:
    name, address = parseaddr(_header(message, "from"))
    return bool(_DAEMON.search(f"{address} {name}")) or not address


def _is_automatic(message: Message, subject: str, text: str) -> bool:
    """Return whether a program replied for a person (RFC 3834)."""
    automatic = _header(message, "auto-submitted").lower()
    if _is_report(message):
        return False
    if _is_daemon(message) and (_SUBJECT.search(subject) or _FAILED_TEXT.search(text)):
        return False
    return (
        message.get_content_type() == "multipart/report"
        or automatic.startswith(("auto-replied", "auto-notified"))
        or any(name in message for name in ("x-autoreply", "x-autorespond", "x-autoresponder"))
        or _header(message, "precedence").lower() == "auto_reply"
        or bool(_AWAY.search(subject))
    )


def _looks_bounced(message: Message, subject: str, text: str) -> bool:
    if "x-failed-recipients" in message:
        return True
    failed = bool(_FAILED_TEXT.search(text))
    if _is_report(message) and failed:
        return True
    if _is_daemon(message):
        return failed or bool(_SUBJECT.search(subject))
    if "list-id" in message or "list-unsubscribe" in message:
        return False
    # Somebody who writes about a bounce replies to it, or is a person with an address.
    if "in-reply-to" in message or subject.lower().startswith(("re:", "fw:", "fwd:", "aw:", "tr:")):
        return bool(re.search(r"\(delivery failed\)\s*$", subject)) and failed
    returned = any(
        part.get_content_type() in ("message/rfc822", "text/rfc822-headers")
        for part in message.walk()
    )
    is_null = _header(message, "return-path").strip() in ("<>", "< >")
    return bool(_SUBJECT.search(subject)) and (failed or returned or is_null)


# -- RFC 3464 -------------------------------------------------------------------------------------


def _status_parts(message: Message) -> Iterator[Message]:
    """Yield what each delivery-status part says about one recipient."""
    for part in message.walk():
        if part.get_content_type() not in (
            "message/delivery-status",
            "message/global-delivery-status",
        ):
            continue
        payload = part.get_payload()
        blocks = payload if isinstance(payload, list) else [email.message_from_string(str(payload))]
        yield from (each for each in blocks if isinstance(each, Message))


def _status_reports(message: Message) -> Iterator[RecipientReport]:
    for block in _status_parts(message):
        address = _recipient(block)
        action = _header(block, "action").split(" ")[0].strip(";,").lower()
        status = _header(block, "status")
        if action in _DELIVERED or not (address or action):
            continue
        found = _STATUS.search(status)
        code = found[1] if found else ""
        if code.startswith("2"):
            continue
        extra = status[found.end() :] if found else status
        yield RecipientReport(
            address,
            code,
            " ".join(f"{_header(block, 'diagnostic-code')} {extra}".split()),
            action == "delayed" or (code.startswith("4")),
        )


def _is_delivered_report(message: Message) -> bool:
    """Return whether a report says only that the email was delivered, relayed or expanded."""
    actions = [_header(each, "action").lower() for each in _status_parts(message)]
    actions = [each for each in actions if each]
    return bool(actions) and all(each.startswith(_DELIVERED) for each in actions)


def _recipient(block: Message) -> str:
    for name in ("original-recipient", "final-recipient", "x-actual-recipient"):
        value = _header(block, name)
        address = value.rpartition(";")[2].strip().strip("<>").strip()
        if "@" in address:
            return address
    return ""


def _guessed_reports(message: Message, text: str) -> Iterator[RecipientReport]:
    """Yield reports of a bounce without a delivery-status part. Without any address there is still
    one report: the envelope may say who it is about."""
    fields = {name.lower(): " ".join(value.split()) for name, value in _FIELD.findall(text)}
    temporary, permanent = all_failures(message)
    is_delay = bool(_DELAY.search(f"{_header(message, 'subject')}\n{text}"))
    found = dict.fromkeys(each.decode("utf-8", "replace") for each in permanent)
    for address in _header(message, "x-failed-recipients").split(","):
        if "@" in address:
            found.setdefault(address.strip())
    delayed = dict.fromkeys(each.decode("utf-8", "replace") for each in temporary)
    status = _STATUS.search(fields.get("status", ""))
    shared = {
        "status": status[1] if status else "",
        "diagnostic": fields.get("diagnostic-code", ""),
    }
    for address in found:
        yield RecipientReport(address, is_temporary=is_delay, **shared)
    for address in delayed:
        if address not in found:
            yield RecipientReport(address, is_temporary=True, **shared)
    if not found and not delayed:
        yield RecipientReport(is_temporary=is_delay, **shared)


# -- text -----------------------------------------------------------------------------------------


def _header(message: Message, name: str) -> str:
    raw = next((value for each, value in message.raw_items() if each.lower() == name), None)
    if raw is None:
        return ""
    # Some systems write UTF-8 without saying so.
    text = str(raw).encode("utf-8", "surrogateescape").decode("utf-8", "replace")[:_LONGEST_FIELD]
    try:
        return " ".join(str(make_header(decode_header(text))).split())
    except (LookupError, ValueError, MessageError):
        return " ".join(text.split())


def _searched(message: Message) -> str:
    """Return headers and texts that may contain our identifiers: the recipient of the bounce
    first, then the returned email, then everything else."""
    texts = [str(message.get(each, "")) for each in ("delivered-to", "x-original-to", "to")]
    for part in message.walk():
        if part is not message:
            texts += [f"{name}: {value}" for name, value in part.items()]
        if not part.is_multipart():
            texts.append(text_of(part))
    return "\n".join(texts)
