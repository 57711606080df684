"""The subscribers of a list: index, add, edit, move, remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.lists import Subscriber
from postroom.domain.texts import one_line
from postroom.services.searching import SubscriberLine, SubscriberState
from postroom.services.users import Role
from postroom.web.admin.conflicts import Difference, differences
from postroom.web.routing import Page
from postroom.web.sorting import A_PAGE, Column, Sortable, Sorting
from postroom.web.visit import Visit

_LONGEST_REASON: Final = 200
_LABELS: Final = {"email": "Address", "verified": "Verified", "blocked": "Blocked because"}


def _state_of(subscriber: SubscriberLine) -> str:
    """As the page says it."""
    if subscriber.blocked:
        return "blocked"
    return "verified" if subscriber.verified else "not verified"


_INDEX: Final = Sortable[SubscriberLine](
    {
        "address": Column("Address", lambda each: each.address),
        "state": Column("State", _state_of),
        "since": Column("Since", lambda each: each.created_at, largest_first=True),
    },
    natural="address",
    in_words="In the order of addresses",
    advice="Search for fewer.",
)


async def index(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    state = _state(visit.parameter("state"))
    prefix = visit.parameter("q").strip()
    kept = _as_kept(prefix)
    filters = {"q": prefix, "state": state.value if state else ""}
    sorting = Sorting(visit, _INDEX, filters)
    size = (await visit.services.sizes.of([mailing_list.name])).get(mailing_list.name)
    if size is not None and not prefix:
        sorting.expect(size.subscribers)
    shown: Sequence[Subscriber | SubscriberLine] | None = None
    cut_short_at = ""
    if not sorting.is_natural:
        shown = sorting.page_of(
            await visit.services.search.whole(
                mailing_list.name, state=state, prefix=kept, most=sorting.most
            )
        )
    if shown is None:
        found = await visit.services.search.find(
            mailing_list.name,
            state=state,
            prefix=kept,
            limit=A_PAGE,
            after=visit.parameter("after"),
        )
        shown = found.subscribers
        if found.is_cut_short and found.next:
            cut_short_at = found.next
        sorting.in_key_order(found.next)
    return visit.page(
        "admin/subscriber_rows.html" if visit.is_partial else "admin/subscribers.html",
        list=mailing_list,
        size=size,
        subscribers=shown,
        cut_short_at=cut_short_at,
        prefix=prefix,
        state=filters["state"],
        sorting=sorting,
    )


async def add(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    template = "admin/subscriber_add.html"
    if visit.request.method == "GET":
        return visit.page(template, list=mailing_list, email="", verified=False, problems={})
    email, verified = await visit.text("email"), bool(await visit.text("verified"))
    problems = {}
    try:
        made = await visit.services.subscriptions.add(mailing_list.name, email, verified=verified)
        await visit.audit("added subscriber", f"{made.address} to {mailing_list.name}")
        return visit.redirect(
            f"/lists/{mailing_list.name}/subscribers/add", f"{made.address} is on the list."
        )
    except Invalid as exc:
        problems, status = {"email": exc.problem}, 422
    except Exists:
        problems, status = {"email": "is on the list already"}, 409
    return visit.page(
        template, status=status, list=mailing_list, email=email, verified=verified,
        problems=problems,
    )  # fmt: skip


async def edit(visit: Visit) -> Response:
    """Details of a subscriber, and the form to change them for those who may."""
    name, email = visit.parameter("name"), visit.parameter("email")
    current = await visit.services.subscriptions.get(name, email)
    if visit.request.method == "GET":
        return await _show(visit, current, _fields(current))
    given = {
        "email": (await visit.text("email")).strip(),
        "verified": "yes" if await visit.text("verified") else "no",
        "blocked": await visit.text("blocked"),
    }
    etag = await visit.text("etag")
    try:
        saved = await _save(visit, current, given, etag)
    except Invalid as exc:
        return await _show(visit, current, given, etag, {exc.field: exc.problem}, status=422)
    except Exists:
        problems = {"email": "is on the list already"}
        return await _show(visit, current, given, etag, problems, status=409)
    except Overtaken:
        current = await visit.services.subscriptions.get(name, email)
        theirs = differences(_LABELS, given, _fields(current))
        return await _show(visit, current, given, current.etag, theirs=theirs, status=409)
    await visit.audit("changed subscriber", f"{saved.address} of {name}")
    return visit.redirect(_address_of(saved), "Saved.")


async def move(visit: Visit) -> Response:
    name, email = visit.parameter("name"), visit.parameter("email")
    current = await visit.services.subscriptions.get(name, email)
    to_list = await visit.text("to_list")
    try:
        moved = await visit.services.subscriptions.move(name, email, to_list)
    except (Invalid, NoSuch):
        problems = {"to_list": "there is no such list: choose one"}
        return await _show(visit, current, _fields(current), problems=problems, status=422)
    except Exists:
        problems = {"to_list": f"{current.address} is on that list already"}
        return await _show(visit, current, _fields(current), problems=problems, status=409)
    await visit.audit("moved subscriber", f"{moved.address} from {name} to {moved.list_name}")
    return visit.redirect(_address_of(moved), f"Moved to the list {moved.list_name}.")


async def ask(visit: Visit) -> Response:
    """Send the mail to confirm to somebody who was added and is not verified."""
    name, email = visit.parameter("name"), visit.parameter("email")
    current = await visit.services.subscriptions.get(name, email)
    try:
        await visit.services.subscriptions.ask(name, email)
    except NotNow as exc:
        problems = {"ask": str(exc)}
        return await _show(visit, current, _fields(current), problems=problems, status=409)
    await visit.audit("asked subscriber to confirm", f"{current.address} of {name}")
    said = f"{current.address} gets a mail with a link to confirm."
    return visit.redirect(_address_of(current), said)


async def delete(visit: Visit) -> Response:
    name, email = visit.parameter("name"), visit.parameter("email")
    current = await visit.services.subscriptions.get(name, email)
    if visit.request.method == "GET":
        return visit.page(
            "admin/confirm.html",
            title=f"Remove {current.address}?",
            points=[
                f"The address is taken off the list {name}; its links stop working.",
                "Messages that are being sent do not reach it any more.",
                "What it was sent before stays in the archive.",
            ],
            button="Remove the subscriber",
            fields={"etag": current.etag},
            back=_address_of(current),
        )
    await visit.services.subscriptions.remove(name, email, await visit.text("etag") or None)
    await visit.audit("removed subscriber", f"{current.address} from {name}")
    return visit.redirect(f"/lists/{name}/subscribers", f"{current.address} is off the list.")


async def _save(visit: Visit, current: Subscriber, given: dict[str, str], etag: str) -> Subscriber:
    """State first, then the address: whatever interrupts it, the form can be sent again."""
    reason = one_line("blocked", given["blocked"], longest=_LONGEST_REASON, required=False)
    saved = await visit.services.subscriptions.edit(
        current.list_name,
        current.address,
        verified=given["verified"] == "yes",
        blocked=reason,
        etag=etag or current.etag,
    )
    if given["email"] == saved.address:
        return saved
    return await visit.services.subscriptions.change_address(
        saved.list_name, saved.address, given["email"], saved.etag
    )


async def _show(
    visit: Visit,
    current: Subscriber,
    values: dict[str, str],
    etag: str = "",
    problems: dict[str, str] | None = None,
    *,
    theirs: list[Difference] | None = None,
    status: int = 200,
) -> Response:
    return visit.page(
        "admin/subscriber.html",
        status=status,
        subscriber=current,
        here=_address_of(current),
        values=values,
        etag=etag or current.etag,
        problems=problems or {},
        theirs=theirs or [],
        lists=[each for each in await visit.services.lists.names() if each != current.list_name],
    )


def _fields(subscriber: Subscriber) -> dict[str, str]:
    return {
        "email": subscriber.address,
        "verified": "yes" if subscriber.verified else "no",
        "blocked": subscriber.blocked,
    }


def _address_of(subscriber: Subscriber) -> str:
    return f"/lists/{subscriber.list_name}/subscribers/{quote(subscriber.address)}"


def _state(text: str) -> SubscriberState | None:
    return SubscriberState(text) if text in set(SubscriberState) else None


def _as_kept(prefix: str) -> str:
    """Addresses are kept with their domain in lower case."""
    local, at, domain = prefix.partition("@")
    return f"{local}{at}{domain.lower()}"


PAGES = (
    Page("/lists/{name}/subscribers", index, role=Role.VIEWER),
    Page("/lists/{name}/subscribers/add", add, role=Role.EDITOR, methods=("GET", "POST")),
    Page(
        "/lists/{name}/subscribers/{email:path}/delete",
        delete,
        role=Role.EDITOR,
        methods=("GET", "POST"),
    ),
    Page("/lists/{name}/subscribers/{email:path}/move", move, role=Role.EDITOR, methods=("POST",)),
    Page("/lists/{name}/subscribers/{email:path}/ask", ask, role=Role.EDITOR, methods=("POST",)),
    Page("/lists/{name}/subscribers/{email:path}", edit, role=Role.VIEWER),
    Page("/lists/{name}/subscribers/{email:path}", edit, role=Role.EDITOR, methods=("POST",)),
)
