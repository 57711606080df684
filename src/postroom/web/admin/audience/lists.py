"""Mailing lists: index, details, create, edit, delete."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response, StreamingResponse

from postroom.domain.audience.list_properties import PROPERTIES
from postroom.domain.audience.lists import ListName, MailingList
from postroom.domain.errors import Exists, Invalid, Overtaken
from postroom.services.accounts.users import Role
from postroom.services.audience.list_sizes import Size
from postroom.web.admin.conflicts import Difference, differences
from postroom.web.admin.wording import counted
from postroom.web.public.languages import NAMES
from postroom.web.rendering.sorting import A_PAGE, Column, Sortable, Sorting
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

_RECENT: Final = 5
_LOOKED_AT: Final = 50  # messages, for the recent ones of a list
_PATIENCE: Final = 2.0  # seconds that somebody waits for the deletion of a list
Sized = tuple[MailingList, Size | None]
_INDEX: Final = Sortable[Sized](
    {
        "list": Column("List", lambda each: each[0].name),
        "description": Column("Description", lambda each: each[0].description),
        "verified": Column("Verified", lambda each: each[1] and each[1].verified, is_number=True),
        "all": Column("All", lambda each: each[1] and each[1].subscribers, is_number=True),
        "made": Column("Made", lambda each: each[0].created_at, largest_first=True),
    },
    natural="list",
    in_words="In the order of names",
    advice="Search for fewer.",
    most=1000,  # each list is a read of its own
)


async def index(visit: Visit) -> Response:
    prefix, after = visit.parameter("q").strip(), visit.parameter("after") or None
    sorting = Sorting(visit, _INDEX, {"q": prefix})
    shown, being_deleted = None, list[ListName]()
    if not sorting.is_natural:
        page = await visit.services.lists.page(prefix=prefix, limit=sorting.most)
        shown = sorting.page_of(None if page.next else await _sized(visit, page.lists))
        being_deleted = page.being_deleted
    if shown is None:
        page = await visit.services.lists.page(prefix=prefix, limit=A_PAGE, after=after)
        shown, being_deleted = await _sized(visit, page.lists), page.being_deleted
        sorting.in_key_order(page.next)
    return visit.page(
        "admin/audience/lists.html",
        lists=shown,
        being_deleted=being_deleted,
        prefix=prefix,
        sorting=sorting,
    )


async def _sized(visit: Visit, lists: list[MailingList]) -> list[Sized]:
    """What fits on one page is counted now if it is small; of more, the last count is good."""
    names = [each.name for each in lists]
    sizes: dict[ListName, Size] = {}
    if len(names) <= A_PAGE:
        sizes = await visit.services.sizes.of(names)
    else:
        sizes = await visit.services.sizes.counted()
    return [(each, sizes.get(each.name)) for each in lists]


async def new(visit: Visit) -> Response:
    if visit.request.method == "GET":
        return visit.page("admin/audience/list_form.html", **_form({}, "", {}))
    given = {"name": (await visit.text("name")).strip(), **await _given(visit)}
    given["public"] = "no" if await visit.text("public") == "no" else "yes"
    try:
        made = await visit.services.lists.create(
            given["name"], public=given["public"] == "yes", **_properties(given)
        )
    except Invalid as exc:
        return visit.page(
            "admin/audience/list_form.html",
            status=422,
            **_form(given, "", {exc.field: exc.problem}),
        )
    except Exists:
        problems = {"name": "is the name of a list already: choose another one"}
        return visit.page("admin/audience/list_form.html", status=409, **_form(given, "", problems))
    await visit.audit("created list", made.name)
    return visit.redirect(f"/lists/{made.name}", f"The list {made.name} is there.")


async def details(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    sizes = await visit.services.sizes.of([mailing_list.name])
    newest = await visit.services.times.all(limit=_LOOKED_AT)
    recent = [each for each in newest.messages if each.list_name == mailing_list.name]
    return visit.page(
        "admin/audience/list.html",
        list=mailing_list,
        size=sizes.get(mailing_list.name),
        recent=recent[:_RECENT],
        properties=_shown_properties(mailing_list),
        sign_up=f"{visit.context.base_url}/subscribe?{urlencode({'list': mailing_list.name})}",
    )


def _shown_properties(mailing_list: MailingList) -> dict[str, str]:
    """Return label and value of the properties that are not empty, except the description."""
    fields = _fields(mailing_list)
    fields["language"] = NAMES[mailing_list.language]
    return {
        each.label: fields[each.name]
        for each in _IN_FORM
        if each.name != "description" and fields[each.name]
    }


async def edit(visit: Visit) -> Response:
    name = visit.parameter("name")
    current = await visit.services.lists.get(name)
    if visit.request.method == "GET":
        form = _form(_fields(current), current.etag, {}, name)
        return visit.page("admin/audience/list_form.html", **form)
    given, etag = await _given(visit), await visit.text("etag")
    try:
        await visit.services.lists.edit(name, etag=etag or None, **_properties(given))
    except Invalid as exc:
        form = _form(given, etag, {exc.field: exc.problem}, name)
        return visit.page("admin/audience/list_form.html", status=422, **form)
    except Overtaken:
        current = await visit.services.lists.get(name)
        labels = {each.name: each.label for each in _IN_FORM}
        found = differences(labels, given, _fields(current))
        form = _form(given, current.etag, {}, name, found)
        return visit.page("admin/audience/list_form.html", status=409, **form)
    await visit.audit("changed list", name)
    return visit.redirect(f"/lists/{name}", "Saved.")


async def delete(visit: Visit) -> Response:
    name = visit.parameter("name")
    if visit.request.method == "GET":
        mailing_list = await visit.services.lists.get(name)
        sizes = await visit.services.sizes.of([mailing_list.name])
        size = sizes.get(mailing_list.name)
        many = "all its" if size is None else f"its {size.subscribers:,}"
        return visit.page(
            "admin/confirm.html",
            title=f"Delete the list {name}?",
            points=[
                f"The list goes, with {many} subscribers and their links.",
                "What became of the messages that were sent to it stays in the archive.",
                "It is refused while a message for the list is not done.",
            ],
            button="Delete the list",
            fields={"etag": mailing_list.etag},
            back=f"/lists/{name}",
        )
    etag = await visit.text("etag") or None
    deletion = visit.context.background.start(
        visit.services.lists.delete(name, etag), f"deletion of the list {name}"
    )
    done, _ = await asyncio.wait([deletion], timeout=_PATIENCE)
    if not done:
        said = f"The list {name} is deleted. Its subscribers are being removed in the background."
    else:
        removed = counted(deletion.result(), "subscriber", "subscribers")
        said = f"The list {name} is deleted, with {removed}."
    await visit.audit("deleted list", name)
    return visit.redirect("/lists", said)


async def export(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    await visit.audit("exported list", mailing_list.name)
    return StreamingResponse(
        visit.services.exports.export_csv(mailing_list.name),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{mailing_list.name}.csv"'},
    )


_IN_FORM: Final = tuple(each for each in PROPERTIES.values() if each.in_form)


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
        "languages": NAMES,
        "properties": _IN_FORM,
    }


PAGES = (
    Page("/lists", index, role=Role.VIEWER),
    Page("/lists/new", new, role=Role.EDITOR, methods=("GET", "POST")),
    Page("/lists/{name}", details, role=Role.VIEWER),
    Page("/lists/{name}/edit", edit, role=Role.EDITOR, methods=("GET", "POST")),
    Page("/lists/{name}/delete", delete, role=Role.EDITOR, methods=("GET", "POST")),
    Page("/lists/{name}/export", export, role=Role.EDITOR),
)
