"""Sending domains: their DKIM keys, and the DNS records that receivers look at."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Exists, Invalid, NotNow
from postroom.domain.messages.delivery.dkim_keys import (
    DkimAlgorithm,
    DkimKey,
    DkimKeyState,
    parse_domain,
)
from postroom.mail.wire_addresses import ascii_domain
from postroom.services.accounts.users import Role
from postroom.services.audience.from_domains import from_domains
from postroom.web.requests.views import View
from postroom.web.requests.visit import Endpoint, Visit

_PATH: Final = "/domains"


class ShownDomain(msgspec.Struct, frozen=True):
    """A domain in the overview."""

    name: str
    lists: list[ListName]
    keys: list[DkimKey]

    @property
    def signing(self) -> list[DkimKey]:
        return [each for each in self.keys if each.state is DkimKeyState.SIGNING]

    @property
    def url(self) -> str:
        return domain_url(self.name)


async def index(visit: Visit) -> Response:
    used = await from_domains(visit.services.lists)
    keys: dict[str, list[DkimKey]] = {}
    for each in await visit.services.dkim_keys.all():
        keys.setdefault(each.domain, []).append(each)
    domains = [
        ShownDomain(name, used.get(name, []), keys.get(name, [])) for name in sorted({*used, *keys})
    ]
    return visit.render("admin/messages/sending_domains.html", domains=domains)


async def details(visit: Visit) -> Response:
    return await _show(visit, _domain(visit.parameter("domain")))


async def _show(
    visit: Visit, domain: str, problems: dict[str, str] | None = None, *, status: int = 200
) -> Response:
    used = await from_domains(visit.services.lists)
    shown = ShownDomain(
        domain, used.get(domain, []), await visit.services.dkim_keys.of_domain(domain)
    )
    return visit.render(
        "admin/messages/sending_domain.html",
        status=status,
        domain=shown,
        algorithms=[each.value for each in DkimAlgorithm],
        problems=problems or {},
        check_url=f"{_PATH}/check?{urlencode({'domain': domain})}",
    )


async def check(visit: Visit) -> Response:
    """Show what receivers find in DNS, as a separate page or as a part of the domain's page."""
    domain = _domain(visit.parameter("domain"))
    found, problem = await visit.context.domain_checks.findings(domain)
    return visit.render(
        f"admin/messages/{'domain_findings' if visit.is_partial else 'domain_check'}.html",
        domain=domain,
        findings=found,
        problem=problem,
        back=domain_url(domain),
    )


async def create_key(visit: Visit) -> Response:
    domain = _domain(await visit.text("domain"))
    try:
        key = await visit.services.dkim_keys.create(
            domain, await visit.text("algorithm"), await visit.text("selector")
        )
    except (Invalid, Exists, NotNow) as exc:
        field, problem = "selector", str(exc)
        if isinstance(exc, Invalid):
            field, problem = exc.field, exc.problem
        return await _show(visit, domain, {field: problem}, status=422)
    await visit.audit("created DKIM key", f"{key.selector} of {domain}")
    return visit.redirect(
        domain_url(domain), f"Key {key.selector} created. Publish its record, then start signing."
    )


async def rotate(visit: Visit) -> Response:
    domain = _domain(await visit.text("domain"))
    created = ", ".join(each.selector for each in await visit.services.dkim_keys.rotate(domain))
    await visit.audit("rotated DKIM keys", f"{created} of {domain}")
    return visit.redirect(
        domain_url(domain), f"{created} created. The current key signs until you start with it."
    )


async def activate(visit: Visit) -> Response:
    """Sign with a key. If its record is not published, ask whether to sign anyway."""
    domain, selector = _domain(await visit.text("domain")), await visit.text("selector")
    anyway = await visit.text("anyway") == "yes"
    try:
        key = await visit.context.domain_checks.activate(domain, selector, without_check=anyway)
    except NotNow as exc:
        text = str(exc)
        visit.skip_audit()
        return visit.render(
            "admin/confirm.html",
            title=f"Start signing with {selector} anyway?",
            points=[
                f"{text[:1].upper()}{text[1:]}.",
                "Until receivers find the record, they treat emails as if they were not signed.",
            ],
            button="Start signing",
            fields={"domain": domain, "selector": selector, "anyway": "yes"},
            back=domain_url(domain),
        )
    await visit.audit("activated DKIM key", f"{key.selector} of {domain}")
    return visit.redirect(domain_url(domain), f"Emails from {domain} are signed with {selector}.")


async def deactivate(visit: Visit) -> Response:
    """Ask for confirmation, then stop signing with a key."""
    if visit.request.method == "GET":
        key = await _asked(visit)
        return visit.render(
            "admin/confirm.html",
            title=f"Stop signing with {key.selector}?",
            points=[
                f"Emails from {key.domain} are no longer signed with it. Gmail, Yahoo and Microsoft"
                " reject bulk mail without a signature: let your mail server sign.",
                "Keep its DNS record for a week, for emails that are still in transit.",
            ],
            button="Stop signing",
            fields={"domain": key.domain, "selector": key.selector},
            back=domain_url(key.domain),
        )
    domain, selector = _domain(await visit.text("domain")), await visit.text("selector")
    await visit.services.dkim_keys.deactivate(domain, selector)
    await visit.audit("deactivated DKIM key", f"{selector} of {domain}")
    return visit.redirect(domain_url(domain), f"{selector} no longer signs.")


async def remove(visit: Visit) -> Response:
    """Ask for confirmation, then remove a key that does not sign."""
    if visit.request.method == "GET":
        key = await _asked(visit)
        return visit.render(
            "admin/confirm.html",
            title=f"Remove key {key.selector}?",
            points=[
                "It cannot be restored.",
                f"Delete {key.record_name} in DNS when no email that it signed is in transit:"
                " a week after it stopped signing.",
            ],
            button="Remove key",
            fields={"domain": key.domain, "selector": key.selector},
            back=domain_url(key.domain),
        )
    domain, selector = _domain(await visit.text("domain")), await visit.text("selector")
    await visit.services.dkim_keys.remove(domain, selector)
    await visit.audit("removed DKIM key", f"{selector} of {domain}")
    return visit.redirect(domain_url(domain), f"Key {selector} removed.")


async def _asked(visit: Visit) -> DkimKey:
    return await visit.services.dkim_keys.get(
        visit.parameter("domain"), visit.parameter("selector")
    )


def _domain(text: str) -> str:
    return parse_domain(ascii_domain(text.strip()))


def domain_url(domain: str) -> str:
    return f"{_PATH}/details?{urlencode({'domain': domain})}"


def _view(path: str, endpoint: Endpoint, *methods: str) -> View:
    return View(f"{_PATH}{path}", endpoint, role=Role.ADMINISTRATOR, methods=methods)


VIEWS = (
    _view("", index, "GET"),
    _view("/details", details, "GET"),
    _view("/check", check, "GET"),
    _view("/keys/create", create_key, "POST"),
    _view("/keys/rotate", rotate, "POST"),
    _view("/keys/activate", activate, "POST"),
    _view("/keys/deactivate", deactivate, "GET", "POST"),
    _view("/keys/remove", remove, "GET", "POST"),
)
