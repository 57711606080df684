"""Segments of a list: index, builder, live count, explanations, and changes of all who match."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import MailingList
from postroom.domain.audience.rules import (
    RuleError,
)
from postroom.domain.audience.segments import Segment
from postroom.domain.errors import Exists, Invalid, NoSuch, Overtaken
from postroom.services.audience.bulk_changes import BulkAction, BulkReport
from postroom.services.audience.targeting.segment_changes import change_segment
from postroom.services.resources.audience import describe_explanation
from postroom.web.admin.audience.segment_builder import EMPTY_TREE, offered, shown_tree
from postroom.web.admin.audience.subscribers.subscriber_selection import PAST_TENSE, parse_action
from postroom.web.rendering.templating import counted
from postroom.web.requests.forms import Difference, differences
from postroom.web.requests.list_checks import check_rule_access
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_SHOWN: Final = 50
_SAMPLE: Final = 20
_SECONDS: Final = 0.5
"""Time limit of each step of a count, while the page shows its progress."""
_BULK_WAIT: Final = 2.0  # seconds; a longer change continues in the background
_DIGITS: Final = 9


class _Found(msgspec.Struct, frozen=True):
    """The count of a rule so far, or what is wrong with the rule."""

    rule: str = ""
    count: int = 0
    sample: Sequence[str] = ()
    seen: int = 0
    total: int = 0
    next: str | None = None
    problem: str = ""


async def index(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    after = visit.parameter("after") or None
    found = await visit.services.segments.slice(mailing_list.name, limit=_SHOWN, after=after)
    return visit.render(
        "admin/audience/segments.html",
        list=mailing_list,
        segments=found.segments,
        next_url=f"{visit.path}?{urlencode({'after': found.next})}" if found.next else "",
        first_url=visit.path if after else "",
    )


async def size(visit: Visit) -> Response:
    """Render how many subscribers are in a segment, for its row in the index. On a long list, this
    is a part of them, and where to continue."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    segment = await visit.services.segments.get(mailing_list.name, visit.parameter("segment"))
    count, following, problem = _number(visit.parameter("counted")), None, ""
    try:
        await check_rule_access(visit.services, visit.access, segment.rule)
        part = await visit.services.segments.count(
            mailing_list.name, segment.rule, after=visit.parameter("after"), seconds=_SECONDS
        )
        count, following = count + part.count, part.next
    except RuleError as exc:
        problem = exc.problem
    more = {"segment": segment.name, "after": following or "", "counted": count}
    return visit.render(
        "admin/audience/segment_size.html",
        count=count,
        problem=problem,
        next_url=f"{visit.path}?{urlencode(more)}" if following else "",
    )


async def edit(visit: Visit) -> Response:
    """Show a segment with its builder, or the form of a new one."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    current = await _current(visit, mailing_list)
    rule = current.rule if current else ""
    return await _show(visit, mailing_list, current, {"name": "", "rule": rule})


async def save(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    current = await _current(visit, mailing_list)
    given = {
        "name": (await visit.text("name")).strip(),
        "rule": (await visit.text("rule")).strip().replace("\r\n", "\n"),
    }
    etag = await visit.text("etag") or None
    segments = visit.services.segments
    try:
        await check_rule_access(visit.services, visit.access, given["rule"])
        if current is None:
            saved = await segments.create(mailing_list.name, given["name"], given["rule"])
        else:
            saved = await segments.change(mailing_list.name, current.name, given["rule"], etag)
    except Invalid as exc:
        problems = {exc.field: exc.problem}
        return await _show(visit, mailing_list, current, given, problems, status=422)
    except Exists:
        problems = {"name": "is already taken: choose another one"}
        return await _show(visit, mailing_list, current, given, problems, status=409)
    except Overtaken:
        current = await _current(visit, mailing_list)
        theirs = {"rule": current.rule if current else ""}
        found = differences({"rule": "Rule"}, given, theirs)
        return await _show(visit, mailing_list, current, given, theirs=found, status=409)
    await visit.audit(
        "changed segment" if current else "created segment", f"{mailing_list.name}: {saved.name}"
    )
    flash = "Saved." if current else f"Segment {saved.name} created."
    return visit.redirect(_address_of(saved), flash)


async def count(visit: Visit) -> Response:
    """Count who matches what is typed; on a long list, a part of it."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    rule = await visit.text("rule")
    found = await _count(visit, mailing_list, rule) if rule.strip() else None
    if visit.is_partial:
        return visit.render("admin/audience/segment_count.html", list=mailing_list, found=found)
    given = {"name": "", "rule": rule}
    return await _show(visit, mailing_list, None, given, found=found)


async def _count(visit: Visit, mailing_list: MailingList, rule: str) -> _Found:
    try:
        await check_rule_access(visit.services, visit.access, rule)
        part = await visit.services.segments.count(
            mailing_list.name, rule, after=await visit.text("after"), seconds=_SECONDS
        )
    except RuleError as exc:
        return _Found(problem=_sentence(exc.problem))
    form = await visit.form()
    earlier = [Address(each) for each in form.getlist("sample") if isinstance(each, str)]
    size = (await visit.services.sizes.of([mailing_list.name])).get(mailing_list.name)
    seen = _number(await visit.text("seen")) + part.looked_at
    return _Found(
        rule=rule,
        count=_number(await visit.text("counted")) + part.count,
        sample=[*earlier, *part.sample][:_SAMPLE],
        seen=seen,
        total=max(seen, size.subscribers if size else 0),
        next=part.next,
    )


async def parse(visit: Visit) -> Response:
    """Return what is typed as data for the builder, as JSON; null if it has a mistake."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    fields = (await visit.services.fields.of(mailing_list.name)).fields
    tree = shown_tree(await visit.text("rule"), fields)
    return Response(tree or "null", media_type="application/json")


async def explain(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    rule, email = await visit.text("rule"), (await visit.text("email")).strip()
    current = None
    if name := await visit.text("segment"):
        current = await visit.services.segments.get(mailing_list.name, name)
        rule = rule or current.rule
    problem, explanation = "", None
    try:
        await check_rule_access(visit.services, visit.access, rule)
        found = await visit.services.segments.explain_rule(mailing_list.name, rule, email)
        explanation = describe_explanation(found)
    except NoSuch:
        problem = f"{email[:254]} is not on the list."
    except Invalid as exc:
        problem = _sentence(exc.problem)
    values: dict[str, Any] = {"problem": problem, "explanation": explanation}
    if visit.is_partial:
        return visit.render("admin/audience/segment_reasons.html", **values)
    given = {"name": "", "rule": rule}
    return await _show(visit, mailing_list, current, given, email=email, **values)


async def delete(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    is_asking = visit.request.method == "GET"
    name = visit.parameter("segment") if is_asking else await visit.text("segment")
    segment = await visit.services.segments.get(mailing_list.name, name)
    if is_asking:
        return visit.render(
            "admin/confirm.html",
            title=f"Delete segment “{name}”?",
            points=["Its subscribers stay on the list."],
            button="Delete segment",
            fields={"segment": name, "etag": segment.etag},
            back=_address_of(segment),
        )
    etag = await visit.text("etag") or None
    await visit.services.segments.remove(mailing_list.name, name, etag)
    await visit.audit("deleted segment", f"{mailing_list.name}: {name}")
    return visit.redirect(f"/lists/{mailing_list.name}/segments", f"Segment {name} deleted.")


_QUESTIONS: Final = {
    BulkAction.ASK: ("Send a confirmation email to {people}?", "Send confirmation email"),
    BulkAction.BLOCK: ("Block {people}?", "Block"),
    BulkAction.UNBLOCK: ("Unblock {people}?", "Unblock"),
    BulkAction.REMOVE: ("Remove {people} from the list?", "Remove"),
    BulkAction.VERIFY: ("Mark {people} as confirmed?", "Mark as confirmed"),
}


async def bulk(visit: Visit) -> Response:
    """Change everyone in a segment, after a question."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    segment = await visit.services.segments.get(mailing_list.name, await visit.text("segment"))
    action = parse_action(await visit.text("action"))
    if not await visit.text("confirmed"):
        visit.skip_audit()
        return await _ask(visit, mailing_list, segment, action)
    flash = await change_everyone(visit, segment, action)
    await visit.audit(f"{PAST_TENSE[action]} segment", f"{mailing_list.name}: {segment.name}")
    return visit.redirect(_address_of(segment), flash)


async def change_everyone(visit: Visit, segment: Segment, action: BulkAction) -> str:
    """Change everyone in a segment; return what to say. What takes longer continues in the
    background."""
    changing = visit.context.background.start(
        change_segment(visit.services.segments, visit.services.subscriptions, segment, action),
        f"change of the segment {segment.name} of the list {segment.list_name}",
    )
    done, _ = await asyncio.wait([changing], timeout=_BULK_WAIT)
    if not done:
        return "The subscribers are being changed in the background."
    report: BulkReport = changing.result()
    flash = f"{counted(report.done, 'subscriber', 'subscribers')} {PAST_TENSE[action]}."
    return f"{flash} Not changed: {len(report.problems):,}." if report.problems else flash


async def _ask(
    visit: Visit, mailing_list: MailingList, segment: Segment, action: BulkAction
) -> Response:
    part = await visit.services.segments.count(mailing_list.name, segment.rule, seconds=_SECONDS)
    people = counted(part.count, "subscriber", "subscribers")
    title, button = _QUESTIONS[action]
    return visit.render(
        "admin/confirm.html",
        title=title.format(people=f"more than {people}" if part.next else people),
        points=[f"Everyone who is in the segment {segment.name} at that moment is changed."],
        button=button,
        fields={"segment": segment.name, "action": action.value, "confirmed": "yes"},
        back=_address_of(segment),
    )


async def _current(visit: Visit, mailing_list: MailingList) -> Segment | None:
    name = visit.parameter("segment")
    return await visit.services.segments.get(mailing_list.name, name) if name else None


async def _show(
    visit: Visit,
    mailing_list: MailingList,
    current: Segment | None,
    values: dict[str, str],
    problems: dict[str, str] | None = None,
    *,
    theirs: list[Difference] | None = None,
    status: int = 200,
    **more: Any,
) -> Response:
    fields = (await visit.services.fields.of(mailing_list.name)).fields
    shown: dict[str, Any] = {
        "list": mailing_list,
        "segment": current.name if current else "",
        "etag": current.etag if current else "",
        "values": values,
        "problems": problems or {},
        "theirs": theirs or [],
        "fields": await offered(visit, mailing_list, fields),
        "tree": shown_tree(values["rule"], fields) if values["rule"] else EMPTY_TREE,
        "found": None,
        "email": "",
        "problem": "",
        "explanation": None,
    }
    return visit.render("admin/audience/segment.html", status=status, **{**shown, **more})


def _address_of(segment: Segment) -> str:
    return f"/lists/{segment.list_name}/segment?{urlencode({'segment': segment.name})}"


def _sentence(problem: str) -> str:
    return f"{problem[:1].upper()}{problem[1:]}{'' if problem.endswith('?') else '.'}"


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


VIEWS = (
    View("/lists/{name}/segments", index, right=ListRight.VIEW),
    View("/lists/{name}/segments/size", size, right=ListRight.VIEW, uses_rules=False),
    View("/lists/{name}/segment", edit, right=ListRight.VIEW, uses_rules=False),
    View(
        "/lists/{name}/segment", save, right=ListRight.MANAGE, methods=("POST",), uses_rules=False
    ),
    View(
        "/lists/{name}/segment/count",
        count,
        right=ListRight.VIEW,
        methods=("POST",),
        audited=False,
        uses_rules=False,
    ),
    View(
        "/lists/{name}/segment/parse",
        parse,
        right=ListRight.VIEW,
        methods=("POST",),
        audited=False,
        uses_rules=False,
    ),
    View(
        "/lists/{name}/segment/explain",
        explain,
        right=ListRight.VIEW,
        methods=("POST",),
        audited=False,
        uses_rules=False,
    ),
    View(
        "/lists/{name}/segment/delete",
        delete,
        right=ListRight.MANAGE,
        methods=("GET", "POST"),
        uses_rules=False,
    ),
    View("/lists/{name}/segment/bulk", bulk, right=ListRight.MANAGE, methods=("POST",)),
)
