"""What a bounce says about each recipient: delivery-status parts (RFC 3464), or what can be guessed
from the texts of systems that write none."""

from __future__ import annotations

import email
import re
from collections.abc import Iterable, Iterator
from email.message import Message
from itertools import islice

import msgspec

from postroom.mail.bounces.returned_text import header_text, own_text

_DELIVERED = ("delivered", "relayed", "expanded")
_DELAYED = "delayed"
"""RFC 3464 2.3.3; everything else is a failure, whatever a system calls it."""
_STATUS = re.compile(r"([245]\.[0-9]{1,3}\.[0-9]{1,3})")
_FIELD = re.compile(
    r"^(final-recipient|original-recipient|action|status|diagnostic-code):"
    r"[ \t]*(.+(?:\n[ \t]+.+)*)",
    re.IGNORECASE | re.MULTILINE,
)
_TEMPORARY = re.compile(
    r"delay(ed)?\b|not yet been delivered|still being retried|warning only"
    r"|will (continue|be retried|keep)|attempts will continue|postponed|advisory-only",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"^[ \t>]*<?([^\s<>@]{1,64}@[^\s<>@:]{1,255})>?:[ \t]+([45])[0-9]{2}\b", re.MULTILINE
)
"""A line with a recipient and the reply to it."""
_MOST_REPORTS = 50


class RecipientReport(msgspec.Struct, frozen=True):
    """What a bounce says about one recipient. The address is a hint: it may be folded, or belong to
    the mailbox that the email was forwarded to."""

    address: str = ""
    status: str = ""
    diagnostic: str = ""
    is_temporary: bool = False


def status_reports(message: Message) -> tuple[RecipientReport, ...]:
    """Return what delivery-status parts say about recipients that the email permanently failed to
    reach. Delays are left out: they may still end well."""
    return _first(_status_reports(_status_parts(message)))


def guessed_reports(message: Message) -> tuple[RecipientReport, ...]:
    """Return what a bounce without a delivery-status part says. Without any address there is still
    one report: the envelope may say who it is about."""
    text = own_text(message)
    return _first(_status_reports(_status_blocks(text))) or _first(_guessed_reports(message, text))


def _first(reports: Iterator[RecipientReport]) -> tuple[RecipientReport, ...]:
    return tuple(islice(reports, _MOST_REPORTS))


def other_actions(message: Message) -> set[str]:
    """Return what else delivery-status parts report: `delivered`, `delayed`; empty if something
    failed, or there is no such part."""
    actions = [header_text(each, "action").lower() for each in _status_parts(message)]
    found = {"delivered" if each.startswith(_DELIVERED) else each[:7] for each in actions if each}
    return found if found <= {"delivered", _DELAYED} else set()


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
        for each in blocks:
            if isinstance(each, Message):
                yield each
                # The standard library takes what follows the first block of a global one for text.
                yield from _status_blocks("" if each.is_multipart() else str(each.get_payload()))


def _status_blocks(text: str) -> Iterator[Message]:
    """Yield what a text says about each recipient in the form of a delivery-status part: the
    boundary before it is broken, or its writer put it there."""
    for each in re.split(r"\n[ \t]*\n", text):
        block = email.message_from_string(each.strip() + "\n")
        if "final-recipient" in block and ("action" in block or "status" in block):
            yield block


def _status_reports(blocks: Iterable[Message]) -> Iterator[RecipientReport]:
    for block in blocks:
        address = _recipient(block)
        action = header_text(block, "action").split(" ")[0].strip(";,").lower()
        status = header_text(block, "status")
        if action in _DELIVERED or action == _DELAYED or not (address or action):
            continue
        found = _STATUS.search(status)
        code = found[1] if found else ""
        if code.startswith("2"):
            continue
        extra = status[found.end() :] if found else status
        yield RecipientReport(
            address,
            code,
            " ".join(f"{header_text(block, 'diagnostic-code')} {extra}".split()),
            code.startswith("4"),
        )


def _recipient(block: Message) -> str:
    for name in ("original-recipient", "final-recipient", "x-actual-recipient"):
        value = header_text(block, name)
        address = value.rpartition(";")[2].strip().strip("<>").strip()
        if "@" in address:
            return address
    return ""


def _guessed_reports(message: Message, text: str) -> Iterator[RecipientReport]:
    from flufl.bounce import all_failures

    fields = {name.lower(): " ".join(value.split()) for name, value in _FIELD.findall(text)}
    temporary, permanent = all_failures(message)
    is_temporary = bool(_TEMPORARY.search(f"{header_text(message, 'subject')}\n{text}"))
    found = dict.fromkeys(each.decode("utf-8", "replace") for each in permanent)
    for address in header_text(message, "x-failed-recipients").split(","):
        if "@" in address:
            found.setdefault(address.strip())
    delayed = dict.fromkeys(each.decode("utf-8", "replace") for each in temporary)
    if not found and not delayed:
        for address, code in _REFUSED.findall(text):
            (delayed if code == "4" else found).setdefault(address)
    status = _STATUS.search(fields.get("status", ""))
    shared = {
        "status": status[1] if status else "",
        "diagnostic": fields.get("diagnostic-code", ""),
    }
    for address in found:
        yield RecipientReport(address, is_temporary=is_temporary, **shared)
    for address in delayed:
        if address not in found:
            yield RecipientReport(address, is_temporary=True, **shared)
    if not found and not delayed:
        yield RecipientReport(is_temporary=is_temporary, **shared)
