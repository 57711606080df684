"""Mailing lists: index, details, create, edit, delete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response, StreamingResponse

from postroom.domain.audience.lists.list_property import ListForm
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import (
    PROPERTIES,
    ListName,
    MailingList,
    properties_of,
)
from postroom.domain.errors import Exists, Invalid, NotNow, Overtaken
from postroom.domain.messages.tracking import Track
from postroom.services.accounts.users import Role
from postroom.services.audience.growth.list_sizes import CurrentSize
from postroom.services.messages.sending.hold_rows import why_all_wait
from postroom.web.admin.audience.growth import audience
from postroom.web.public.visitor import LANGUAGE_NAMES
from postroom.web.rendering.sorting import ROWS_SHOWN, Sortable, SortColumn, Sorting
from postroom.web.rendering.templating import counted, sentence, with_status_labels
from postroom.web.requests.forms import Difference, differences
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_RECENT: Final = 5
_MESSAGES_SEARCHED: Final = 50  # for the recent ones of a list
_DELETION_WAIT: Final = 2.0  # seconds; a longer deletion continues in the background

Sized = tuple[MailingList, CurrentSize | None]
_INDEX: Final = Sortable[Sized](
    {
        "list": SortColumn("List", lambda each: each[0].name),
        "confirmed": SortColumn(
            "Confirmed", lambda each: each[1] and each[1].verified, is_number=True
        ),
        "subscribers": SortColumn(
            "Subscribers", lambda each: each[1] and each[1].subscribers, is_number=True
        ),
        "created": SortColumn("Created", lambda each: each[0].created_at, largest_first=True),
    },
    key_order="list",
    order_label="Sorted by name",
    advice="Search for a name to narrow the list.",
    max_rows=1000,  # each list is a separate read
)


async def index(visit: Visit) -> Response:
    prefix, after = visit.parameter("q").strip(), visit.parameter("after") or None
    sorting = Sorting(visit, _INDEX, {"q": prefix})
    shown, being_deleted = None, list[ListName]()
    if not sorting.is_key_order:
        found = await visit.lists.slice(prefix=prefix, limit=sorting.max_rows)
        shown = sorting.select(None if found.next else await _sized(visit, found.lists))
        being_deleted = found.being_deleted
    if shown is None:
        found = await visit.lists.slice(prefix=prefix, limit=ROWS_SHOWN, after=after)
        shown, being_deleted = await _sized(visit, found.lists), found.being_deleted
        sorting.continue_after(found.next)
    return visit.render(
        "admin/audience/lists.html",
        lists=shown,
        being_deleted=being_deleted,
        prefix=prefix,
        sorting=sorting,
    )


async def _sized(visit: Visit, lists: list[MailingList]) -> list[Sized]:
    """Count the lists of one screen now; for more, use the latest count."""
    names = [each.name for each in lists]
    sizes: dict[ListName, CurrentSize] = {}
    if len(names) <= ROWS_SHOWN:
        sizes = await visit.services.sizes.of(names)
    else:
        sizes = await visit.services.sizes.counted()
    return [(each, sizes.get(each.name)) for each in lists]


async def new(visit: Visit) -> Response:
    if visit.request.method == "GET":
        return visit.render("admin/audience/list_form.html", **_form({}, "", {}))
    given = {"name": (await visit.text("name")).strip(), **await _given(visit)}
    given["public"] = "no" if await visit.text("public") == "no" else "yes"
    try:
        made = await visit.services.lists.create(
            given["name"], public=given["public"] == "yes", **_properties(given)
        )
    except Invalid as exc:
        return visit.render(
            "admin/audience/list_form.html",
            status=422,
            **_form(given, "", {exc.field: exc.problem}),
        )
    except Exists:
        problems = {"name": "is already taken: choose another one"}
        return visit.render(
            "admin/audience/list_form.html", status=409, **_form(given, "", problems)
        )
    await visit.audit("created list", made.name)
    return visit.redirect(f"/lists/{made.name}", f"List {made.name} created.")


async def details(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    sizes = await visit.services.sizes.of([mailing_list.name])
    newest = await visit.messages.all(limit=_MESSAGES_SEARCHED)
    recent = [each for each in newest.messages if mailing_list.name in each.lists][:_RECENT]
    holds = await visit.services.holds.open_holds()
    return visit.render(
        "admin/audience/list.html",
        list=mailing_list,
        audience=await audience(visit, sizes[mailing_list.name], mailing_list.name),
        recent=recent,
        held={each.ref: why_all_wait(holds, each) for each in recent},
        properties=_shown_properties(mailing_list),
        sign_up=f"{visit.context.base_url}/subscribe?{urlencode({'list': mailing_list.name})}",
    )


def _shown_properties(mailing_list: MailingList) -> dict[str, str]:
    """Return label and value of the properties that are not empty, except the description."""
    shown = (*_IN_FORM, PROPERTIES["website"], PROPERTIES["postal_address"])
    fields = {each.name: getattr(mailing_list, each.name) for each in shown}
    fields["language"] = LANGUAGE_NAMES[mailing_list.language]
    fields["track"] = fields["track"].capitalize()
    return {
        each.label: fields[each.name]
        for each in shown
        if each.name != "description" and fields[each.name]
    }


async def edit(visit: Visit) -> Response:
    name = visit.parameter("name")
    current = await visit.services.lists.get(name)
    if visit.request.method == "GET":
        form = _form(_fields(current), current.etag, {}, name)
        return visit.render("admin/audience/list_form.html", **form)
    given, etag = await _given(visit), await visit.text("etag")
    try:
        await visit.services.lists.edit(name, etag=etag or None, **_properties(given))
    except Invalid as exc:
        form = _form(given, etag, {exc.field: exc.problem}, name)
        return visit.render("admin/audience/list_form.html", status=422, **form)
    except Overtaken:
        current = await visit.services.lists.get(name)
        labels = {each.name: each.label for each in _IN_FORM}
        found = differences(labels, given, _fields(current))
        form = _form(given, current.etag, {}, name, found)
        return visit.render("admin/audience/list_form.html", status=409, **form)
    await visit.audit("changed list", name)
    return visit.redirect(f"/lists/{name}", "Saved.")


async def delete(visit: Visit) -> Response:
    name = visit.parameter("name")
    if visit.request.method == "GET":
        mailing_list = await visit.services.lists.get(name)
        sizes = await visit.services.sizes.of([mailing_list.name])
        size = sizes.get(mailing_list.name)
        refused = await _why_not_deleted(visit, mailing_list.name)
        many = "all its subscribers" if size is None else _its(size.subscribers)
        return visit.render(
            "admin/confirm.html",
            title=f"Delete list “{name}”?",
            points=[
                f"The list and {many} are deleted, and their links stop working.",
                "Messages that were sent to it are kept, with their outcomes.",
            ],
            refused=refused,
            button="Delete list",
            fields={"etag": mailing_list.etag},
            back=f"/lists/{name}",
        )
    etag = await visit.text("etag") or None
    deletion = visit.context.background.start(
        visit.services.lists.delete(name, etag), f"deletion of the list {name}"
    )
    done, _ = await asyncio.wait([deletion], timeout=_DELETION_WAIT)
    if not done:
        flash = f"List {name} deleted. Its subscribers are being removed in the background."
    else:
        removed = counted(deletion.result(), "subscriber", "subscribers")
        flash = f"List {name} deleted, with {removed}."
    await visit.audit("deleted list", name)
    return visit.redirect("/lists", flash)


def _its(subscribers: int) -> str:
    return f"its {counted(subscribers, 'subscriber', 'subscribers')}"


async def _why_not_deleted(visit: Visit, name: ListName) -> str:
    """Return why the list cannot be deleted now, or ""."""
    try:
        await visit.services.lists.check_deletable(name)
    except NotNow as exc:
        return sentence(with_status_labels(str(exc)), "")
    return ""


async def export(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    name, segment = mailing_list.name, visit.parameter("segment")
    pieces = visit.services.exports.export_csv(name, segment)
    first = await anext(pieces)  # before the response begins: the segment may not work
    await visit.audit("exported list", f"{name}: {segment}" if segment else name)
    file_name = f"{name}-{segment}.csv" if segment else f"{name}.csv"

    async def whole() -> AsyncIterator[str]:
        yield first
        async for piece in pieces:
            yield piece

    return StreamingResponse(
        whole(),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{file_name}"'},
    )


_IN_FORM: Final = properties_of(ListForm.LIST)


async def _given(visit: Visit) -> dict[str, str]:
    return {each.name: await visit.text(each.name) for each in _IN_FORM}


def _properties(given: dict[str, str]) -> dict[str, Any]:
    """Return the properties as they were entered; a choice that was not made stays as it is."""
    return {each.name: given[each.name] or (None if each.choices else "") for each in _IN_FORM}


def _fields(mailing_list: MailingList) -> dict[str, str]:
    return {each.name: getattr(mailing_list, each.name) for each in _IN_FORM}


def _form(
    given: dict[str, str],
    etag: str,
    problems: dict[str, str],
    name: str = "",
    theirs: list[Difference] | None = None,
) -> dict[str, Any]:
    values = {
        "name": "",
        "public": "yes",
        **{each.name: each.default or "" for each in _IN_FORM},
        **given,
    }
    return {
        "values": values,
        "etag": etag,
        "problems": problems,
        "name": name,
        "theirs": theirs or [],
        "languages": LANGUAGE_NAMES,
        "track_names": {each.value: each.value.capitalize() for each in Track},
        "properties": _IN_FORM,
    }


VIEWS = (
    View("/lists", index, right=ListRight.VIEW),
    View("/lists/new", new, role=Role.EDITOR, methods=("GET", "POST")),
    View("/lists/{name}", details, right=ListRight.VIEW),
    View("/lists/{name}/edit", edit, right=ListRight.MANAGE, methods=("GET", "POST")),
    View("/lists/{name}/delete", delete, right=ListRight.MANAGE, methods=("GET", "POST")),
    View("/lists/{name}/export", export, right=ListRight.MANAGE),
)
