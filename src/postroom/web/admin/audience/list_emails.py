"""The emails that a list sends automatically: confirmation and welcome, in each language."""

from __future__ import annotations

from html import escape
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.list_emails import (
    LONGEST_SUBJECT,
    LONGEST_TEXT,
    ListEmail,
    ListEmailKind,
    parse_email_kind,
)
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import MailingList, SubscriberGuid, new_guid
from postroom.domain.errors import DomainError, Invalid, Overtaken
from postroom.domain.languages import LANGUAGES, known_language
from postroom.errors import PostroomError
from postroom.mail.bodies.documents import framed
from postroom.mail.mail_reader import read_mail
from postroom.mail.mailing import Recipient
from postroom.sender.draft_emails import SUBJECT_MARK, parse_test_addresses
from postroom.sender.list_mailings import sample_mail
from postroom.services.audience.list_emails import written_email
from postroom.transport.contract import ResultKind, Unwatched
from postroom.web.public.visitor import LANGUAGE_NAMES
from postroom.web.rendering.sandbox import sandboxed
from postroom.web.requests.forms import differences
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit
from postroom.wiring import opened_transport

_NOBODY: Final = SubscriberGuid("00000000-0000-4000-8000-000000000000")
_SOMEBODY: Final = Address("subscriber@example.com")
_LABELS: Final = {
    ListEmailKind.CONFIRMATION: "Confirmation email",
    ListEmailKind.WELCOME: "Welcome email",
}


class _Chosen(msgspec.Struct, frozen=True):
    """The email that the page is about."""

    kind: ListEmailKind
    language: str

    def address(self, name: str, page: str = "") -> str:
        query = urlencode({"kind": self.kind, "language": self.language})
        return f"/lists/{name}/emails{page}?{query}"


async def emails(visit: Visit) -> Response:
    """Show the text of one email in one language, or save it."""
    current = await visit.services.lists.get(visit.parameter("name"))
    chosen = _chosen(visit, current)
    if visit.request.method != "POST":
        return _show(visit, current, chosen)
    typed = await _typed(visit)
    etag = await visit.text("etag") or None
    try:
        await visit.services.list_emails.save(
            current.name, chosen.kind, chosen.language, typed.subject, typed.text, etag=etag
        )
    except Invalid as exc:
        problems = {exc.field: exc.problem}
        return _show(visit, current, chosen, typed, status=422, problems=problems)
    except Overtaken:
        current = await visit.services.lists.get(current.name)
        theirs = written_email(current, chosen.kind, chosen.language).email
        found = differences(
            {"subject": "Subject", "text": "Text"},
            msgspec.to_builtins(typed),
            msgspec.to_builtins(theirs),
        )
        return _show(visit, current, chosen, typed, status=409, theirs=found)
    await visit.audit(f"changed {chosen.kind} email of list", f"{current.name}: {chosen.language}")
    return visit.redirect(chosen.address(current.name), "Saved.")


async def reset(visit: Visit) -> Response:
    current = await visit.services.lists.get(visit.parameter("name"))
    chosen = _chosen(visit, current)
    await visit.services.list_emails.reset(current.name, chosen.kind, chosen.language)
    await visit.audit(f"reset {chosen.kind} email of list", f"{current.name}: {chosen.language}")
    return visit.redirect(chosen.address(current.name), "Reset to the standard text.")


async def switch_welcome(visit: Visit) -> Response:
    """Turn the welcome email of a list on or off."""
    is_on = await visit.text("welcome_email") == "yes"
    saved = await visit.services.lists.edit(visit.parameter("name"), welcome_email=is_on)
    state = "on" if is_on else "off"
    await visit.audit(f"turned welcome email {state}", saved.name)
    address = _Chosen(ListEmailKind.WELCOME, _chosen(visit, saved).language).address(saved.name)
    return visit.redirect(address, f"Welcome email turned {state}.")


async def sample(visit: Visit) -> Response:
    """Render the email as it is stored, or as it was typed."""
    current = await visit.services.lists.get(visit.parameter("name"))
    chosen = _chosen(visit, current)
    email = written_email(current, chosen.kind, chosen.language).email
    if visit.request.method == "POST":
        email = await _typed(visit)
    try:
        html = await _rendered(visit, current, chosen, email)
    except Invalid as exc:
        problem = f"{exc.field.capitalize()}: {exc.problem}"
        html = framed(f"<p>{escape(problem)}</p>", language=LANGUAGES[0], title="Preview")
    return sandboxed(html, base_url=visit.context.base_url)


async def test(visit: Visit) -> Response:
    """Send what is typed to some addresses."""
    current = await visit.services.lists.get(visit.parameter("name"))
    chosen, typed = _chosen(visit, current), await _typed(visit)
    to = (await visit.text("test_to")).replace(";", ",").split(",")
    result, was_sent = await _test(visit, current, chosen, typed, [each.strip() for each in to])
    if visit.is_partial:
        return visit.render(
            "admin/messages/test_result.html", test_result=result, was_sent=was_sent
        )
    return _show(visit, current, chosen, typed, test_result=result, was_sent=was_sent)


async def _test(
    visit: Visit, current: MailingList, chosen: _Chosen, typed: ListEmail, to: list[str]
) -> tuple[str, bool]:
    """Return the result of the test as text, and whether all emails were accepted."""
    sent: list[Address] = []
    try:
        addresses = parse_test_addresses([each for each in to if each])
        checked = await visit.services.list_emails.checked(
            current.name, chosen.kind, typed.subject, typed.text
        )
        marked = msgspec.structs.replace(checked, subject=SUBJECT_MARK + checked.subject)
        personal = await visit.services.audiences.personal(current.name)
        async with opened_transport(visit.context.settings, visit.services) as transport:
            for address in addresses:
                mailing, recipient = sample_mail(
                    current,
                    chosen.kind,
                    chosen.language,
                    marked,
                    visit.context.base_url,
                    Recipient(address, new_guid()),
                    personal,
                )
                [result] = await transport.send(mailing, [recipient], Unwatched())
                if result.kind is not ResultKind.ACCEPTED:
                    return f"The test to {address} was {result.kind}: {result.reply}", False
                sent.append(address)
    except DomainError as exc:
        return str(exc), False
    except PostroomError as exc:
        return f"the test could not be sent: {exc}", False
    finally:
        if sent:
            await visit.audit(
                f"sent test of {chosen.kind} email of {current.name} to", ", ".join(sent)
            )
    return f"Test sent to {', '.join(addresses)}.", True


async def _rendered(visit: Visit, current: MailingList, chosen: _Chosen, typed: ListEmail) -> str:
    """Return the HTML of an email as an example reads it. `Invalid`."""
    checked = await visit.services.list_emails.checked(
        current.name, chosen.kind, typed.subject, typed.text
    )
    mailing, recipient = sample_mail(
        current,
        chosen.kind,
        chosen.language,
        checked,
        visit.context.base_url,
        Recipient(_SOMEBODY, _NOBODY),
        await visit.services.audiences.personal(current.name),
    )
    return read_mail(mailing.mail(recipient)).html or ""


def _show(
    visit: Visit,
    current: MailingList,
    chosen: _Chosen,
    typed: ListEmail | None = None,
    *,
    status: int = 200,
    **more: Any,
) -> Response:
    written = written_email(current, chosen.kind, chosen.language)
    email = typed or written.email
    return visit.render(
        "admin/audience/list_emails.html",
        status=status,
        **{
            "list": current,
            "chosen": chosen,
            "label": _LABELS[chosen.kind],
            "choices": [
                (label, _Chosen(kind, chosen.language).address(current.name), kind is chosen.kind)
                for kind, label in _LABELS.items()
            ],
            "languages": [
                (
                    language,
                    LANGUAGE_NAMES[language],
                    _Chosen(chosen.kind, language).address(current.name),
                    language in current.own_emails(chosen.kind),
                )
                for language in LANGUAGES
            ],
            "email": email,
            "is_own": written.is_own,
            "is_confirmation": chosen.kind is ListEmailKind.CONFIRMATION,
            "longest_subject": LONGEST_SUBJECT,
            "longest_text": LONGEST_TEXT,
            "sample_url": chosen.address(current.name, "/sample"),
            "is_unsaved": email != written.email,
            "problems": {},
            "theirs": [],
            "test_result": "",
            "was_sent": False,
            **more,
        },
    )


def _chosen(visit: Visit, current: MailingList) -> _Chosen:
    """Return the email that the URL names. `Invalid`."""
    kind = parse_email_kind(visit.parameter("kind") or ListEmailKind.CONFIRMATION)
    return _Chosen(kind, known_language(visit.parameter("language")) or current.language)


async def _typed(visit: Visit) -> ListEmail:
    text = (await visit.text("text")).replace("\r\n", "\n")
    return ListEmail((await visit.text("subject")).strip(), text.strip())


VIEWS = (
    View("/lists/{name}/emails", emails, right=ListRight.MANAGE, methods=("GET", "POST")),
    View("/lists/{name}/emails/reset", reset, right=ListRight.MANAGE, methods=("POST",)),
    View("/lists/{name}/emails/welcome", switch_welcome, right=ListRight.MANAGE, methods=("POST",)),
    View(
        "/lists/{name}/emails/test", test, right=ListRight.MANAGE, methods=("POST",), audited=False
    ),
    View(
        "/lists/{name}/emails/sample",
        sample,
        right=ListRight.MANAGE,
        methods=("GET", "POST"),
        audited=False,
    ),
)
