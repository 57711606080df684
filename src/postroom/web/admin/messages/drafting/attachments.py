"""Uploads of files that are attached to a message.

An upload stores only the content. The form of the editor lists the files, so they are saved with
everything else in it, and its versions have them, too.
"""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse, PlainTextResponse, Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import Invalid
from postroom.domain.messages.attachments import LARGEST_IN_TOTAL, describe_file
from postroom.domain.messages.messages import MessageStatus, check_editable
from postroom.domain.units import show_size
from postroom.web.requests.views import View, error_page
from postroom.web.requests.visit import Visit

_LARGEST_FORM: Final = LARGEST_IN_TOTAL + 64 * 1024


async def upload(visit: Visit) -> Response:
    """Store the content of a file, and return what the form lists."""
    message = await visit.services.messages.get(visit.parameter("ref"))
    check_editable(message.status)
    if message.status is not MessageStatus.DRAFT and not visit.may(ListRight.SEND):
        return error_page(
            visit,
            403,
            "Permission denied",
            "This message is scheduled: only an editor can change it.",
        )
    file = (await visit.form()).get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        return PlainTextResponse("Choose a file.", 422)
    content = await file.read()
    try:
        attachment = describe_file(file.filename, content)
        await visit.services.attached_files.put(message.ref, {attachment.hash: content})
    except Invalid as exc:
        return PlainTextResponse(f"{exc.problem}.", 422)
    visit.skip_audit()  # saving the message is recorded
    described = msgspec.structs.asdict(attachment)
    return JSONResponse({"attachment": described, "shown_size": show_size(attachment.size)})


VIEWS = (
    View(
        "/messages/{ref}/attachments",
        upload,
        right=ListRight.EDIT,
        methods=("POST",),
        max_body=_LARGEST_FORM,
    ),
)
