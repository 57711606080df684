"""The explorer: raw tables, entities and blobs of the store, for administrators."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response, StreamingResponse

from postroom.domain.errors import Invalid, NoSuch, Overtaken
from postroom.services.accounts.users import Role
from postroom.services.operations.explorer import (
    CHANGEABLE,
    CHANGEABLE_CONTAINERS,
    check_changeable,
    check_container_changeable,
    emails_of_page,
    reason_closed,
    rows_to_show,
)
from postroom.services.resources.operations import ValueKind, kind_of, parse_value, show_value
from postroom.storage import BlobInfo, Entity, InvalidRequest, Value
from postroom.web.rendering.sorting import Sortable, SortColumn, Sorting
from postroom.web.requests.views import View
from postroom.web.requests.visit import Endpoint, Visit

_AT_ONCE = 50
_NEW_PROPERTIES = 2  # empty fields at the end of the form
_MOST_PROPERTIES = 260
_LONGEST_VALUE: Final = 1000  # characters of a value among the rows; the row itself shows all
_BLOBS: Final = Sortable[BlobInfo](
    {
        "name": SortColumn("Name", lambda each: each.name),
        "size": SortColumn("Size", lambda each: each.size, is_number=True),
        "modified": SortColumn("Modified", lambda each: each.modified_at, largest_first=True),
    },
    key_order="name",
    order_label="Sorted by name",
    advice="Filter by name.",
)


class Line(msgspec.Struct, frozen=True):
    """A property in the form. `theirs` is what someone else has saved in the meantime."""

    name: str
    kind: str
    text: str
    is_new: bool = False
    is_removed: bool = False
    problem: str = ""
    theirs: str | None = None


async def index(visit: Visit) -> Response:
    explorer = visit.services.explorer
    return visit.render(
        "admin/operations/explorer.html",
        tables=await explorer.tables(),
        containers=await explorer.containers(),
    )


# -- tables ---------------------------------------------------------------------------------------


async def table(visit: Visit) -> Response:
    """Show the partitions of a table, or the first rows of a closed one without their values."""
    explorer, name = visit.services.explorer, visit.parameter("table")
    if reason := reason_closed(name):
        return visit.render(
            "admin/operations/explorer_closed.html",
            table=name,
            reason=reason,
            rows=[_row(entity) for entity in await explorer.masked_rows(name)],
        )
    prefix, after = visit.parameter("prefix"), visit.parameter("after")
    found = await explorer.partitions(name, prefix=prefix, after=after, limit=_AT_ONCE)
    base = f"/explorer/tables/{quote(name)}"
    return visit.render(
        "admin/operations/explorer_table.html",
        table=name,
        base=base,
        prefix=prefix,
        partitions=found.keys,
        further=_link(base, prefix=prefix, after=found.next) if found.next else "",
        first=_link(base, prefix=prefix) if after else "",
    )


async def rows(visit: Visit) -> Response:
    """Show the rows of one partition."""
    name, partition = visit.parameter("table"), visit.parameter("partition")
    prefix, after = visit.parameter("prefix"), visit.parameter("after")
    found = await visit.services.explorer.rows(
        name, partition, prefix=prefix, after=after or None, limit=_AT_ONCE
    )
    base = f"/explorer/tables/{quote(name)}"
    here = f"{base}/rows"
    return visit.render(
        "admin/operations/explorer_rows.html",
        table=name,
        base=base,
        partition=partition,
        prefix=prefix,
        rows=[_row(rows_to_show(name, entity)[0]) for entity in found.entities],
        further=_link(here, partition=partition, prefix=prefix, after=found.next)
        if found.next
        else "",
        first=_link(here, partition=partition, prefix=prefix) if after else "",
    )


async def entity(visit: Visit) -> Response:
    found = await _entity(visit)
    return _form(visit, found, _lines(found), found.etag)


async def save(visit: Visit) -> Response:
    """Save all properties as they were typed, if the ETag still matches."""
    name = visit.parameter("table")
    partition, row = visit.parameter("partition"), visit.parameter("row")
    etag = await visit.text("etag")
    typed = await _typed(visit)
    try:
        current = await _entity(visit)
    except NoSuch:
        gone = Entity(partition, row, {})
        problem = (
            "This entity has been deleted in the meantime. Your changes are still in the form."
        )
        return _form(visit, gone, typed, etag, status=409, problem=problem)
    values, lines = _parsed(typed, current)
    if any(line.problem for line in lines):
        return _form(visit, current, lines, etag, status=422)
    try:
        await visit.services.explorer.save(name, Entity(partition, row, values), etag)
    except Overtaken:
        problem = (
            "Someone else saved changes first. Their values are shown next to yours."
            " Save again to overwrite them."
        )
        both = _with_saved(lines, current)
        return _form(visit, current, both, current.etag, status=409, problem=problem)
    except InvalidRequest as exc:
        return _form(visit, current, lines, etag, status=422, problem=str(exc))
    await visit.audit("changed an entity in the explorer", f"{name}: {partition}, {row}")
    return visit.redirect(_entity_url(name, partition, row), "Saved.")


async def confirm_delete(visit: Visit) -> Response:
    check_changeable(visit.parameter("table"))
    found = await _entity(visit)
    return visit.render(
        "admin/operations/explorer_delete.html",
        what=f"the entity {found.partition}, {found.row}",
        where=f"the table {visit.parameter('table')}",
        etag=found.etag,
        back=_entity_url(visit.parameter("table"), found.partition, found.row),
    )


async def delete(visit: Visit) -> Response:
    name = visit.parameter("table")
    partition, row = visit.parameter("partition"), visit.parameter("row")
    await visit.services.explorer.delete(name, partition, row, await visit.text("etag"))
    await visit.audit("deleted an entity in the explorer", f"{name}: {partition}, {row}")
    there = _link(f"/explorer/tables/{quote(name)}/rows", partition=partition)
    return visit.redirect(there, "Entity deleted.")


# -- blobs ----------------------------------------------------------------------------------------


async def container(visit: Visit) -> Response:
    name = visit.parameter("container")
    prefix, after = visit.parameter("prefix"), visit.parameter("after")
    sorting = Sorting(visit, _BLOBS, {"prefix": prefix}, rows_shown=_AT_ONCE)
    explorer, shown = visit.services.explorer, None
    if not sorting.is_key_order:
        shown = sorting.select(await explorer.all_blobs(name, prefix=prefix, most=sorting.max_rows))
    if shown is None:
        found = await explorer.blobs(name, prefix=prefix, after=after or None, limit=_AT_ONCE)
        shown = found.blobs
        sorting.continue_after(found.next)
    return visit.render(
        "admin/operations/explorer_container.html",
        container=name,
        can_change=name in CHANGEABLE_CONTAINERS,
        base=f"/explorer/containers/{quote(name)}",
        prefix=prefix,
        blobs=shown,
        sorting=sorting,
    )


async def download(visit: Visit) -> Response:
    """Send a blob as a download; the browser never displays it."""
    where, name = visit.parameter("container"), visit.parameter("name")
    info = await visit.services.explorer.blob(where, name)
    file = quote(name.rpartition("/")[2], safe="")
    return StreamingResponse(
        visit.services.explorer.content(where, name),
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{file}",
            "Content-Length": str(info.size),
            "Content-Security-Policy": "sandbox; default-src 'none'",
        },
    )


async def confirm_delete_blob(visit: Visit) -> Response:
    where, name = visit.parameter("container"), visit.parameter("name")
    check_container_changeable(where)
    info = await visit.services.explorer.blob(where, name)
    return visit.render(
        "admin/operations/explorer_delete.html",
        what=f"the blob {name}",
        where=f"the container {where}",
        etag=info.etag,
        back=f"/explorer/containers/{quote(where)}",
    )


async def delete_blob(visit: Visit) -> Response:
    where, name = visit.parameter("container"), visit.parameter("name")
    await visit.services.explorer.delete_blob(where, name, await visit.text("etag"))
    await visit.audit("deleted a blob in the explorer", f"{where}: {name}")
    return visit.redirect(f"/explorer/containers/{quote(where)}", "Blob deleted.")


# -- the form of an entity ------------------------------------------------------------------------


def _form(
    visit: Visit,
    entity: Entity,
    lines: list[Line],
    etag: str,
    *,
    status: int = 200,
    problem: str = "",
) -> Response:
    name = visit.parameter("table")
    empty = [Line("", ValueKind.TEXT, "", is_new=True)] * _NEW_PROPERTIES
    wrong = [line.name or "a new property" for line in lines if line.problem]
    if wrong and not problem:
        problem = f"Not saved. Check {', '.join(wrong)}."
    return visit.render(
        "admin/operations/explorer_entity.html",
        status=status,
        table=name,
        entity=entity,
        lines=[*lines, *empty] if not any(line.is_new for line in lines) else lines,
        kinds=list(ValueKind),
        etag=etag,
        problem=problem,
        can_change=name in CHANGEABLE,
        has_theirs=any(line.theirs is not None for line in lines),
        emails=emails_of_page(name, entity),
        packed=_packed(name, entity),
        here=_entity_url(name, entity.partition, entity.row),
        delete_url=_link(
            f"/explorer/tables/{quote(name)}/delete", partition=entity.partition, row=entity.row
        ),
        rows_url=_link(f"/explorer/tables/{quote(name)}/rows", partition=entity.partition),
    )


def _packed(table: str, entity: Entity) -> set[str]:
    """Return the properties that are shown as rows instead."""
    return set(entity.properties) - set(rows_to_show(table, entity)[0].properties)


def _lines(entity: Entity) -> list[Line]:
    return [
        Line(name, kind_of(value), show_value(value)) for name, value in entity.properties.items()
    ]


async def _typed(visit: Visit) -> list[Line]:
    """Return the properties in the submitted form."""
    form = await visit.form()
    lines: list[Line] = []
    for number in range(_MOST_PROPERTIES):
        if f"name{number}" not in form:
            break
        line = Line(
            (await visit.text(f"name{number}")).strip(),
            await visit.text(f"kind{number}"),
            await visit.text(f"value{number}"),
            is_new=bool(await visit.text(f"new{number}")),
            is_removed=bool(await visit.text(f"remove{number}")),
        )
        lines.append(line)
    return lines


def _parsed(typed: list[Line], current: Entity) -> tuple[dict[str, Value], list[Line]]:
    """Return the parsed values, and the lines with their errors."""
    values: dict[str, Value] = {}
    lines: list[Line] = []
    for line in typed:
        problem = ""
        if line.is_removed or (line.is_new and not line.name and not line.text):
            lines.append(line)
            continue
        if not line.name:
            problem = "A property needs a name."
        elif line.name in values:
            problem = "This name is used twice."
        else:
            try:
                values[line.name] = _value(line, current.properties.get(line.name))
            except Invalid as exc:
                problem = exc.problem
        lines.append(msgspec.structs.replace(line, problem=problem))
    return values, lines


def _value(line: Line, now: Value | None) -> Value:
    """Parse a value; text that differs only in its line ends (browsers send CR LF) stays as is."""
    text = _plain_ends(line.text)
    if isinstance(now, str) and line.kind == ValueKind.TEXT and _plain_ends(now) == text:
        return now
    return parse_value(line.name, line.kind, text)


def _plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _with_saved(lines: list[Line], current: Entity) -> list[Line]:
    """Return the submitted lines with the saved values next to them."""
    now = {line.name: line.text for line in _lines(current)}
    mine = [
        msgspec.structs.replace(line, theirs=now.pop(line.name, "(missing)"))
        for line in lines
        if line.name
    ]
    only_theirs = [
        Line(line.name, line.kind, line.text, theirs=line.text)
        for line in _lines(current)
        if line.name in now
    ]
    return [*mine, *only_theirs]


async def _entity(visit: Visit) -> Entity:
    return await visit.services.explorer.entity(
        visit.parameter("table"), visit.parameter("partition"), visit.parameter("row")
    )


def _row(entity: Entity) -> dict[str, object]:
    """Summarise an entity in one line, with its values to open."""
    values = [(name, show_value(value)) for name, value in entity.properties.items()]
    texts = [f"{name}: {text[:60]}" for name, text in values]
    return {
        "partition": entity.partition,
        "row": entity.row,
        "text": " · ".join(texts)[:300],
        "values": [(name, _shortened(text)) for name, text in values],
    }


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _entity_url(table: str, partition: str, row: str) -> str:
    return _link(f"/explorer/tables/{quote(table)}/entity", partition=partition, row=row)


def _link(path: str, **values: str | None) -> str:
    given = {name: value for name, value in values.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def _page(path: str, endpoint: Endpoint, method: str = "GET") -> View:
    return View(path, endpoint, role=Role.ADMINISTRATOR, methods=(method,), sudo=True)


VIEWS = (
    _page("/explorer", index),
    _page("/explorer/tables/{table}", table),
    _page("/explorer/tables/{table}/rows", rows),
    _page("/explorer/tables/{table}/entity", entity),
    _page("/explorer/tables/{table}/entity", save, "POST"),
    _page("/explorer/tables/{table}/delete", confirm_delete),
    _page("/explorer/tables/{table}/delete", delete, "POST"),
    _page("/explorer/containers/{container}", container),
    _page("/explorer/containers/{container}/download", download),
    _page("/explorer/containers/{container}/delete", confirm_delete_blob),
    _page("/explorer/containers/{container}/delete", delete_blob, "POST"),
)
