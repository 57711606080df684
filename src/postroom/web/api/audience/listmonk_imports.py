"""`/lists/{name}/import/listmonk`: subscribers from the API of a listmonk installation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.files.import_report import Existing
from postroom.services.audience.listmonk.listmonk_api import ListmonkAccount, ListmonkApi
from postroom.services.audience.listmonk.listmonk_file import USES, listmonk_file
from postroom.services.resources.audience import ImportResource, describe_import
from postroom.web.api.documenting import call
from postroom.web.api.field_types import Body, ListPath, Text
from postroom.web.api.key_rights import is_limited
from postroom.web.api.routing import ApiRoute, context_of, respond, services_of

router = APIRouter(route_class=ApiRoute, tags=["Subscribers"])


class ListmonkImport(Body):
    url: Annotated[
        Text, Field(description="The address of listmonk, such as `https://listmonk.example.com`.")
    ]
    user: Annotated[Text, Field(description="An API user of listmonk.")]
    token: Annotated[Text, Field(description="Its access token, which is not stored.")]
    listmonk_list: Annotated[Text, Field(description="The list there: its name or number.")]
    verified: Annotated[
        bool,
        Field(description="Whether subscribers of a single opt-in list are verified."),
    ] = False
    even_unsubscribed: Annotated[
        bool, Field(description="Whether to re-subscribe people who unsubscribed from the list.")
    ] = False
    existing: Annotated[
        Existing,
        Field(
            strict=False,
            description="What happens to the fields of existing subscribers, as for a file.",
        ),
    ] = Existing.OVERWRITE
    create_fields: Annotated[
        bool, Field(description="Whether to create text fields for unknown attributes.")
    ] = False
    dry_run: Annotated[
        bool, Field(description="Whether to write nothing and only report what would happen.")
    ] = False


@router.post(
    "/lists/{name}/import/listmonk",
    **call(Scope.SUBSCRIBERS, ImportResource, 404, 409, right=ListRight.MANAGE),
)
async def import_from_listmonk(request: Request, name: ListPath, body: ListmonkImport) -> Response:
    """Import a list through the API of listmonk.

    Subscribers keep their states: people who unsubscribed, and disabled ones, are recorded as
    unsubscribed; blocklisted ones are blocked. Attributes named like fields fill them. The API user
    needs the permissions `lists:get_all` and `subscribers:get`. Only public addresses are
    contacted, on the ports 80, 443, 8080 and 8443. The import goes on if the client disconnects;
    repeating it does no harm.
    """
    services = services_of(request)
    await services.lists.get(name)
    account = ListmonkAccount(body.url, body.user, body.token)
    api = ListmonkApi(account, context_of(request).may_import_from)

    source = await api.list(body.listmonk_list)
    with await listmonk_file(api, source, lambda count, total: None) as file:
        report = await services.imports.import_csv(
            name,
            file,
            verified=body.verified,
            even_unsubscribed=body.even_unsubscribed,
            existing=body.existing,
            create_fields=body.create_fields,
            columns=dict(USES),
            dry_run=body.dry_run,
            on_every_list=not is_limited(request),
        )
    return respond(describe_import(report))
