"""Importing a CSV file into a list: upload, preview, progress, rejected lines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.datastructures import UploadFile
from starlette.responses import Response, StreamingResponse

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import NoSuch
from postroom.services.audience.files.cells import shown
from postroom.services.audience.files.columns.dates import DateOrder
from postroom.services.audience.files.import_report import Existing
from postroom.services.audience.files.runs.import_runs import kept_file
from postroom.services.audience.files.runs.import_states import ImportOptions, ImportState
from postroom.web.admin.audience.subscribers.column_mapping import (
    DATE_ORDERS,
    MappedColumn,
    given_columns,
    mapped_columns,
)
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

LARGEST_FILE: Final = 200 * 1024 * 1024
_SHOWN: Final = 50
_RECENT: Final = 10
ENCODINGS: Final = {
    "": "UTF-8 or UTF-16 (detected automatically)",
    "windows-1252": "Windows-1252 (Western Europe)",
    "windows-1250": "Windows-1250 (Central Europe)",
    "windows-1251": "Windows-1251 (Cyrillic)",
    "iso-8859-15": "ISO-8859-15 (Latin 9)",
    "koi8-r": "KOI8-R",
    "cp949": "Korean (CP949)",
    "shift_jis": "Japanese (Shift JIS)",
    "gb18030": "Chinese (GB 18030)",
}

EXISTING: Final = {
    Existing.OVERWRITE.value: "Overwrite with the values of the file",
    Existing.FILL_GAPS.value: "Fill in missing values only",
    Existing.KEEP.value: "Keep as they are",
}
_CHOICES: Final[Mapping[str, Any]] = {
    "encodings": ENCODINGS,
    "existing_choices": EXISTING,
    "date_orders": DATE_ORDERS,
}


async def upload(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    recent = (await visit.context.import_runs.of(mailing_list.name))[:_RECENT]
    values: dict[str, Any] = {"list": mailing_list, "problem": "", "recent": recent, **_CHOICES}
    if visit.request.method == "GET":
        return visit.render("admin/audience/import.html", **values)
    file = (await visit.form()).get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        values["problem"] = "Choose a CSV file."
        return visit.render("admin/audience/import.html", status=422, **values)
    kept = await asyncio.to_thread(kept_file, file.file)
    await file.close()
    run = await visit.context.import_runs.begin(
        mailing_list.name, kept, file_name=shown(file.filename), options=await _options(visit)
    )
    return visit.redirect(f"/lists/{mailing_list.name}/import/{run.id}")


async def watch(visit: Visit) -> Response:
    """Show the check of a file, its preview, and then the import."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    run = await visit.context.import_runs.find(mailing_list.name, visit.parameter("run"))
    template = (
        "admin/audience/import_progress.html"
        if visit.is_partial
        else "admin/audience/import_run.html"
    )
    rejected_lines = [] if run is None or run.is_running else run.report.errors[:_SHOWN]
    columns = [] if run is None else await _mapped(visit, run)
    return visit.render(
        template, list=mailing_list, run=run, shown=rejected_lines, columns=columns, **_CHOICES
    )


async def confirm(visit: Visit) -> Response:
    """Import what the preview shows; if the options were changed, check again first."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    runs = visit.context.import_runs
    run = await runs.find(mailing_list.name, visit.parameter("run"))
    if run is None:
        return visit.redirect(f"/lists/{mailing_list.name}/import/{visit.parameter('run')}")
    options = msgspec.structs.replace(
        await _options(visit), columns=await _chosen_columns(visit, run)
    )
    if options != run.options or await visit.text("action") != "import":
        await runs.check_again(run, options)
    elif await runs.confirm(run):
        await visit.audit("imported into list", f"{mailing_list.name}: {run.file_name}")
    return visit.redirect(f"/lists/{mailing_list.name}/import/{run.id}")


async def _options(visit: Visit) -> ImportOptions:
    return ImportOptions(
        encoding=await visit.text("encoding"),
        verified=bool(await visit.text("verified")),
        even_unsubscribed=bool(await visit.text("even_unsubscribed")),
        existing=_existing(await visit.text("existing")),
        create_fields=bool(await visit.text("create_fields")),
        date_order=_date_order(await visit.text("date_order")),
        on_every_list=visit.access.may(ListRight.MANAGE),
    )


async def _mapped(visit: Visit, run: ImportState) -> list[MappedColumn]:
    fields = (await visit.services.fields.of(run.list_name)).fields
    return mapped_columns(run.report, fields, dict(run.options.columns))


async def _chosen_columns(visit: Visit, run: ImportState) -> tuple[tuple[str, str], ...]:
    """Return what columns are used for, as far as someone has chosen it."""
    now = {each.name: each.choice for each in await _mapped(visit, run)}
    changed = {
        name: choice for name, choice in await given_columns(visit) if now.get(name) != choice
    }
    return tuple({**dict(run.options.columns), **changed}.items())


async def stop(visit: Visit) -> Response:
    """Stop an import; it can be resumed."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    run = await visit.context.import_runs.find(mailing_list.name, visit.parameter("run"))
    if run is not None:
        await visit.context.import_runs.stop(run)
        await visit.audit("stopped import into list", f"{mailing_list.name}: {run.file_name}")
    return visit.redirect(f"/lists/{mailing_list.name}/import/{visit.parameter('run')}")


def _date_order(text: str) -> DateOrder:
    return DateOrder(text) if text in set(DateOrder) else DateOrder.YEAR_FIRST


def _existing(text: str) -> Existing:
    return Existing(text) if text in set(Existing) else Existing.OVERWRITE


async def rejected(visit: Visit) -> Response:
    run = await visit.context.import_runs.find(visit.parameter("name"), visit.parameter("run"))
    if run is None or run.is_running:
        raise NoSuch("report of the import", visit.parameter("run"))
    return StreamingResponse(
        visit.context.import_runs.rejected_csv(run),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{_file_name(run)}"'},
    )


def _file_name(run: ImportState) -> str:
    return f"{run.list_name}-rejected.csv"


VIEWS = (
    View(
        "/lists/{name}/import",
        upload,
        right=ListRight.MANAGE,
        methods=("GET", "POST"),
        max_body=LARGEST_FILE,
    ),
    View("/lists/{name}/import/{run}", watch, right=ListRight.MANAGE),
    View("/lists/{name}/import/{run}", confirm, right=ListRight.MANAGE, methods=("POST",)),
    View("/lists/{name}/import/{run}/stop", stop, right=ListRight.MANAGE, methods=("POST",)),
    View("/lists/{name}/import/{run}/rejected.csv", rejected, right=ListRight.MANAGE),
)
