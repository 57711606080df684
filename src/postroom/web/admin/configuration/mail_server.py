"""Settings → Mail server: which one is used, and a test email that says what is wrong."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from postroom import clock
from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.errors import Incomplete, Invalid
from postroom.mail.mailing import Recipient
from postroom.mail.system_mail import compile_notice
from postroom.notices import NoFromAddress, NoticeSender
from postroom.services.accounts.users import Role
from postroom.services.messages.sending.holds import ACCOUNT
from postroom.settings import STORED
from postroom.transport.registry import sends_mail
from postroom.transport.smtp.servers import SmtpServer
from postroom.transport.smtp.trial import TrialResult
from postroom.web.admin.configuration.mail_presets import BY_ID, PRESETS, Preset, preset_of_host
from postroom.web.admin.configuration.mail_server_form import (
    ENCRYPTIONS,
    ServerForm,
    checked_url,
    form_of,
    parse_single,
)
from postroom.web.admin.configuration.setting_fields import (
    SettingField,
    describe_changes,
    lock_of,
    read_changes,
    save_changes,
    show_fields,
)
from postroom.web.requests.cookies import Signer
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit
from postroom.wiring import send_trial

HERE = "/settings/mail-server"
_CONNECTIONS = SettingField(
    "connections_in_all",
    "Connections at the same time",
    "For all senders together. Some providers allow only a few.",
)
SETTINGS = ("transport", _CONNECTIONS.name)
_TESTED_FOR = 3600  # seconds in which a tested server can be saved as tested
_SET_ELSEWHERE = "Nothing was changed: the mail server is set elsewhere."
_NOBODY = SubscriberGuid("administrator")


async def mail_server(visit: Visit) -> Response:
    await visit.context.live.refresh()
    wanted = BY_ID.get(visit.parameter("preset"))
    before = _stored_server(visit)
    if wanted is None or (before is not None and preset_of_host(before.host) is wanted):
        return await _show(visit, wanted or _current_preset(before), _form(visit, before))
    connections = str(wanted.connections or "")
    return await _show(visit, wanted, _form_of_preset(wanted), connections=connections)


async def save(visit: Visit) -> Response:
    form = await _read_form(visit)
    preset = BY_ID.get(await visit.text("preset"), BY_ID["smtp"])
    before = _stored_server(visit)
    if lock_of(visit.context.settings.found["transport"]):
        return visit.redirect(HERE, _SET_ELSEWHERE)
    changes, problems = await read_changes(visit, [_CONNECTIONS])
    url = ""
    try:
        url = checked_url(form, before)
    except Incomplete as exc:
        problems |= exc.problems
    if problems:
        typed = await visit.text(_CONNECTIONS.name)
        return await _show(visit, preset, form, problems, connections=typed)
    was_tested = visit.context.live.stored.tested_at is not None and _is_unchanged(visit, url)
    was_tested = was_tested or await _is_tested(visit, url)
    problem = await save_changes(visit, {"transport": url, **changes})
    if problem:
        return await _show(visit, preset, form, {"": problem})
    if was_tested:
        await visit.context.live.note_test()
    await visit.services.holds.try_now([ACCOUNT])  # emails may be waiting for another server
    return visit.redirect(HERE, f"Saved. Emails are sent through {form.host} from now on.")


async def remove(visit: Visit) -> Response:
    """Ask for confirmation, then forget the mail server: emails are kept in the outbox again."""
    if lock_of(visit.context.settings.found["transport"]):
        return visit.redirect(HERE, _SET_ELSEWHERE)
    if visit.request.method == "GET":
        return visit.render(
            "admin/confirm.html",
            title="Stop sending emails?",
            points=[
                "The mail server and its password are removed from these settings.",
                "From then on, emails are kept in the Outbox. Those of messages that are being sent"
                " go there, too, and count as accepted: pause such messages first.",
            ],
            fields={},
            button="Stop sending",
            back=HERE,
        )
    changes = {"transport": None}
    await visit.context.live.change(changes, by=visit.who.email)
    await visit.audit("changed settings", describe_changes(visit.context.settings, changes))
    return visit.redirect(HERE, "Emails are kept in the Outbox from now on.")


async def send_test(visit: Visit) -> Response:
    """Send a test email through the server in the form, which need not be saved."""
    form = await _read_form(visit)
    preset = BY_ID.get(await visit.text("preset"), BY_ID["smtp"])
    found = visit.context.settings.found["transport"]
    try:
        to = _parse("to", await visit.text("to"))
        sender = _parse("from", await visit.text("from"))
        url = found.text if found.is_fixed else checked_url(form, _stored_server(visit))
    except Incomplete as exc:
        return await _show_result(visit, preset, form, problems=exc.problems)
    except Invalid as exc:
        return await _show_result(visit, preset, form, problems={exc.field: exc.problem})
    mailing = compile_notice(
        from_address=sender,
        subject="Postroom: your mail server works",
        text=f"This test email was sent by Postroom at {visit.context.base_url}.\n"
        "If you can read it, your mail server works.\n",
        date=clock.now(),
        key=secrets.token_hex(8),
    )
    recipient = Recipient(to, _NOBODY)
    settings = visit.context.settings
    result = await send_trial(visit.services, settings, url, mailing, recipient)
    outcome = "accepted" if result.advice is None else "not accepted"
    await visit.audit(
        "sent test email", f"{to} from {sender} through {_shown_host(url)}: {outcome}"
    )
    if result.advice is None and _is_unchanged(visit, url):
        await visit.context.live.note_test()
    return await _show_result(visit, preset, form, result=result, url=url, to=to)


# --------------------------------------------------------------------------------------------
# What is shown


async def _show_result(
    visit: Visit,
    preset: Preset,
    form: ServerForm,
    *,
    result: TrialResult | None = None,
    problems: Mapping[str, str] | None = None,
    url: str = "",
    to: str = "",
) -> Response:
    """Show the result of the test: the part below the button, or the whole page without
    JavaScript."""
    is_saved = _is_unchanged(visit, url)
    tested = "" if result is None or result.advice else _tested_mark(visit, url)
    values: dict[str, Any] = {
        "result": result,
        "test_problems": problems,
        "is_saved": is_saved,
        "tested": tested,
        "sent_to": to,
    }
    if not visit.is_partial:
        return await _show(visit, preset, form, problems, **values)
    return visit.render("admin/configuration/mail_server_result.html", labels=_LABELS, **values)


_NO_TEST: dict[str, Any] = {
    "result": None,
    "test_problems": {},
    "is_saved": True,
    "tested": "",
    "sent_to": "",
}
_LABELS = {
    "host": "Host",
    "port": "Port",
    "encryption": "Encryption",
    "user": "User name",
    "password": "Password",
    "to": "To",
    "from": "From",
    "connections_in_all": _CONNECTIONS.label,
}


async def _show(
    visit: Visit,
    preset: Preset,
    form: ServerForm,
    problems: Mapping[str, str] | None = None,
    connections: str = "",
    **values: Any,
) -> Response:
    settings, live = visit.context.settings, visit.context.live
    found = settings.found["transport"]
    server = parse_single(found.text)
    typed = {_CONNECTIONS.name: connections} if connections else None
    shown = show_fields(settings, [_CONNECTIONS], typed, problems)
    return visit.render(
        "admin/configuration/mail_server.html",
        status=422 if problems else 200,
        here=HERE,
        presets=PRESETS,
        preset=preset,
        form=form,
        encryptions=ENCRYPTIONS,
        connections=shown[_CONNECTIONS.name],
        labels=_LABELS,
        lock=lock_of(found),
        shown_url=found.shown,
        current=str(server or ""),
        is_set=sends_mail(found.text),
        has_password=found.origin == STORED and server is not None and bool(server.password),
        stored=live.stored,
        is_stored=found.origin == STORED,
        problems=problems or {},
        problem=(problems or {}).get("", ""),
        test_to=await visit.text("to") or visit.who.email,
        test_from=await visit.text("from") or await _usual_sender(visit),
        **{**_NO_TEST, **values},
    )


async def _usual_sender(visit: Visit) -> str:
    """Return the From address to propose for a test: empty if none is known."""
    configured = visit.context.settings.alerts.from_address
    try:
        return await NoticeSender(visit.services.lists, configured).address()
    except NoFromAddress:
        return ""


def _form(visit: Visit, before: SmtpServer | None) -> ServerForm:
    if before is not None:
        return form_of(before)
    found = visit.context.settings.found["transport"]
    server = parse_single(found.text)
    if server is None or not found.is_fixed:
        return ServerForm()
    # The user name may be a token: it is not shown where it cannot be changed.
    user = "●●●" if server.username else ""
    return msgspec.structs.replace(form_of(server), user=user)


def _form_of_preset(preset: Preset) -> ServerForm:
    return ServerForm(
        preset.host, str(preset.port), encryption=preset.encryption, user=preset.fixed_user
    )


def _current_preset(before: SmtpServer | None) -> Preset:
    return preset_of_host(before.host) if before is not None else BY_ID["smtp"]


def _shown_host(url: str) -> str:
    server = parse_single(url)
    return str(server) if server is not None else url.partition(":")[0]


# --------------------------------------------------------------------------------------------
# What was typed, and what is stored


async def _read_form(visit: Visit) -> ServerForm:
    return ServerForm(
        host=(await visit.text("host")).strip(),
        port=(await visit.text("port")).strip(),
        encryption=await visit.text("encryption"),
        user=(await visit.text("user")).strip(),
        password=(await visit.text("password")).strip(),
        accepts_any=await visit.text("accepts_any") == "yes",
    )


def _parse(field: str, text: str) -> Address:
    try:
        return parse_address(text)
    except Invalid as exc:
        raise Invalid(field, exc.problem) from exc


def _stored_server(visit: Visit) -> SmtpServer | None:
    """Return the server that this page has stored before."""
    found = visit.context.settings.found["transport"]
    return parse_single(found.text) if found.origin == STORED else None


def _is_unchanged(visit: Visit, url: str) -> bool:
    return visit.context.settings.found["transport"].text == url


def _tested_mark(visit: Visit, url: str) -> str:
    """Return a mark that proves, when the form is saved, that this server has been tested."""
    digest = hashlib.blake2b(url.encode(), key=visit.context.secret[:64]).hexdigest()
    return Signer(visit.context.secret, "tested mail server").sign(digest)


async def _is_tested(visit: Visit, url: str) -> bool:
    signer = Signer(visit.context.secret, "tested mail server")
    digest = hashlib.blake2b(url.encode(), key=visit.context.secret[:64]).hexdigest()
    return signer.read(await visit.text("tested"), max_age=_TESTED_FOR) == digest


VIEWS = (
    View(HERE, mail_server, role=Role.ADMINISTRATOR),
    View(HERE, save, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View(f"{HERE}/remove", remove, role=Role.ADMINISTRATOR, methods=("GET", "POST"), sudo=True),
    View(f"{HERE}/test", send_test, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
)
