"""`/lists/{name}/domain-check`: the DNS records of the domain that a list sends from."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.addresses import domain_of
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.mail.wire_addresses import ascii_domain
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.deliverability.sending_domains import (
    DomainCheckResource,
    describe_domain_check,
)
from postroom.web.api.documenting import call
from postroom.web.api.field_types import ListPath
from postroom.web.api.routing import ApiRoute, context_of, respond, services_of

router = APIRouter(route_class=ApiRoute, tags=["Lists"])


@router.get(
    "/lists/{name}/domain-check",
    **call(Scope.LISTS, DomainCheckResource, 404, right=ListRight.VIEW),
)
async def read_domain_check(request: Request, name: ListPath) -> Response:
    """Return what receivers find in DNS about the list's From address: SPF, DKIM, DMARC and more,
    with the record to publish where one is missing."""
    found = await services_of(request).lists.get(name)
    domain = ascii_domain(domain_of(found.from_address)).lower()
    findings, problem = await context_of(request).domain_checks.findings(domain)
    return respond(describe_domain_check(domain, findings, problem))
