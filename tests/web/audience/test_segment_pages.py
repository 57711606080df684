"""Segments of a list, over HTTP: builder data, count, explanations, changes of all who match."""

from __future__ import annotations

import io
import json
import re
from html import unescape

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.errors import NoSuch
from postroom.services.accounts.users import Role
from postroom.web.admin.audience import segments
from tests.services.waiting import until
from tests.web.site import Site, Visitor

HERE = "/lists/news"
PARTIAL = {"HX-Request": "true"}


@pytest.fixture
async def editor(site: Site) -> Visitor:
    services = site.services
    await services.lists.create("news", "News", "news@contoso.example")
    plan = Field("plan", FieldType.CHOICE, choices=("free", "pro"))
    await services.fields.declare("news", [Field("city"), Field("age", FieldType.INTEGER), plan])
    for name, city, age in (("ann", "Bern", 30), ("bob", "Ulm", 40), ("cid", "bern", 50)):
        await services.subscriptions.add(
            "news", f"{name}@b.org", verified=True, attributes={"city": city, "age": age}
        )
    return await site.user(Role.EDITOR)


async def test_a_segment_is_created_changed_and_deleted(site: Site, editor: Visitor) -> None:
    assert "No segments yet" in (await editor.get(f"{HERE}/segments")).text
    made = await editor.post(f"{HERE}/segment", {"name": "bern", "rule": 'city = "Bern"'})
    where = made.headers["location"]
    assert where == f"{HERE}/segment?segment=bern"
    page = (await editor.get(where)).text
    assert "city = &#34;Bern&#34;" in page
    etag = re.findall(r'name="etag" value="([^"]+)"', page)[0]
    saved = await editor.post(where, {"rule": "age > 35", "etag": unescape(etag)})
    assert saved.status_code == 303
    assert (await site.services.segments.get("news", "bern")).rule == "age > 35"
    conflict = await editor.post(where, {"rule": "age > 1", "etag": unescape(etag)})
    assert conflict.status_code == 409
    assert "Someone else saved changes first" in conflict.text
    listed = (await editor.get(f"{HERE}/segments")).text
    assert "age &gt; 35" in listed
    [counting] = re.findall(r'hx-get="([^"]+/segments/size[^"]+)"', listed)
    assert (await editor.get(unescape(counting))).text.strip() == "2"
    await editor.post(f"{HERE}/segment/delete", {"segment": "bern"})
    with pytest.raises(NoSuch):
        await site.services.segments.get("news", "bern")


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"name": "x", "rule": "ctiy = 1"}, 422, "line 1, column 1: there is no field ctiy; did"),
        ({"name": "x", "rule": ""}, 422, "write a rule such as city"),
        ({"name": "a b", "rule": "age > 1"}, 422, "must have 1 to 100 letters"),
        ({"name": "old", "rule": "age > 1"}, 409, "is already taken"),
    ],
)
async def test_a_mistake_is_shown_with_its_place_and_nothing_is_lost(
    site: Site, editor: Visitor, given: dict[str, str], status: int, words: str
) -> None:
    await site.services.segments.create("news", "old", "age > 2")
    answer = await editor.post(f"{HERE}/segment", given)
    assert answer.status_code == status
    assert words.lower() in unescape(answer.text).lower()
    assert f"\n{given['rule']}</textarea>" in unescape(answer.text)


async def test_the_builder_gets_the_rule_as_data(site: Site, editor: Visitor) -> None:
    rule = 'not (city = "a\\"b" or plan in ("free", "pro")) and joined within 3 weeks'
    answer = await editor.post(f"{HERE}/segment/parse", {"rule": rule})
    assert answer.json() == {
        "kind": "group",
        "all": True,
        "negated": False,
        "parts": [
            {
                "kind": "group",
                "all": False,
                "negated": True,
                "parts": [
                    {"kind": "row", "field": "city", "operator": "=", "values": ['a"b'],
                     "unit": "", "negated": False},
                    {"kind": "row", "field": "plan", "operator": "in", "values": ["free", "pro"],
                     "unit": "", "negated": False},
                ],
            },
            {"kind": "row", "field": "joined", "operator": "within", "values": ["3"],
             "unit": "weeks", "negated": False},
        ],
    }  # fmt: skip
    assert (await editor.post(f"{HERE}/segment/parse", {"rule": "nope = 1"})).json() is None
    page = (await editor.get(f"{HERE}/segment")).text
    offered = json.loads(unescape(re.findall(r'data-fields="([^"]*)"', page)[0]))
    plan = next(each for each in offered if each["name"] == "plan")
    assert plan["choices"] == ["free", "pro"]
    assert "contains" in plan["operators"]


async def test_the_count_of_a_long_list_continues_step_by_step(
    site: Site, editor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"u{n:04}@b.org,Rome\n" for n in range(2500))
    file = io.BytesIO(f"email,city\n{lines}".encode())
    await site.services.imports.import_csv("news", file)
    monkeypatch.setattr(segments, "_SECONDS", -1.0)
    given: dict[str, str | list[str]] = {"rule": 'city = "rome"'}
    seen, part = [], None
    for _ in range(10):
        part = await editor.post(f"{HERE}/segment/count", given, headers=PARTIAL)
        seen.append(re.findall(r'<span class="figure">([\d,]+)</span>', part.text)[0])
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', part.text)
        if not hidden:
            break
        assert "<progress" in part.text
        given = {}
        for name, value in hidden:
            given.setdefault(name, [])
            earlier = given[name]
            assert isinstance(earlier, list)
            earlier.append(unescape(value))
    assert seen == ["997", "1,997", "2,500"]
    assert part is not None
    assert part.text.count("<li>") == 20
    assert ">u0000@b.org<" in part.text


async def test_a_wrong_rule_is_named_while_it_is_typed(editor: Visitor) -> None:
    part = await editor.post(f"{HERE}/segment/count", {"rule": "city ="}, headers=PARTIAL)
    assert "Line 1, column 7: the rule ends too early" in part.text
    nothing = await editor.post(f"{HERE}/segment/count", {"rule": " "}, headers=PARTIAL)
    assert "Complete a condition" in nothing.text
    unknown = await editor.post(f"{HERE}/segment/count", {"rule": 'cty = "Bern"'}, headers=PARTIAL)
    assert "did you mean city?</p>" in unknown.text


async def test_it_is_explained_why_someone_is_in_or_out(editor: Visitor) -> None:
    given = {"rule": 'city = "Bern" and age > 35', "email": "ann@b.org"}
    part = (await editor.post(f"{HERE}/segment/explain", given, headers=PARTIAL)).text
    assert "does not match this rule." in part
    assert part.count('class="holds') == 1
    assert part.count('class="fails') == 2
    assert re.findall('class="under">(.*?)</span>', part) == ["Bern", "30"]
    stranger = await editor.post(f"{HERE}/segment/explain", {**given, "email": "x@b.org"})
    assert "x@b.org is not on the list." in stranger.text
    assert "city = &#34;Bern&#34; and age &gt; 35" in stranger.text  # a whole page, without htmx


async def test_a_segment_is_exported_and_filters_the_index(site: Site, editor: Visitor) -> None:
    await site.services.segments.create("news", "bern", 'city = "Bern"')
    exported = await editor.get(f"{HERE}/export?segment=bern")
    assert exported.headers["content-disposition"] == 'attachment; filename="news-bern.csv"'
    assert [line.split(",")[0] for line in exported.text.splitlines()[1:]] == [
        "ann@b.org",
        "cid@b.org",
    ]
    assert (await editor.get(f"{HERE}/export?segment=nope")).status_code == 404
    await site.services.fields.declare("news", [])
    assert (await editor.get(f"{HERE}/export?segment=bern")).status_code == 422


async def test_everyone_in_a_segment_is_changed_after_a_question(
    site: Site, editor: Visitor
) -> None:
    await site.services.segments.create("news", "bern", 'city = "Bern"')
    where, bern = f"{HERE}/segment/bulk", {"segment": "bern"}
    question = await editor.post(where, {"action": "remove", **bern})
    assert "Remove 2 subscribers from the list?" in question.text
    assert len((await site.services.subscriptions.slice("news")).subscribers) == 3
    done = await editor.post(where, {"action": "remove", "confirmed": "yes", **bern})
    assert done.status_code == 303

    async def left() -> bool:
        found = await site.services.subscriptions.slice("news")
        return [each.address for each in found.subscribers] == ["bob@b.org"]

    await until(left, "everyone in the segment is removed")
    assert (await editor.post(where, {"action": "dance", **bern})).status_code == 422


async def test_a_viewer_sees_segments_and_changes_none(site: Site, editor: Visitor) -> None:
    await site.services.segments.create("news", "bern", 'city = "Bern"')
    viewer = await site.user(Role.VIEWER)
    page = (await viewer.get(f"{HERE}/segment?segment=bern")).text
    assert ">Save<" not in page
    assert "Remove…" not in page
    assert (
        "2</span>"
        in (
            await viewer.post(f"{HERE}/segment/count", {"rule": 'city = "Bern"'}, headers=PARTIAL)
        ).text
    )
    for path in ("segment", "segment/delete", "segment/bulk"):
        assert (await viewer.post(f"{HERE}/{path}", {})).status_code == 403


async def test_the_size_of_a_segment_is_counted_in_parts(
    site: Site, editor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.services.segments.create("news", "grown-up", "age > 35")
    await site.services.segments.create("news", "local", 'city = "Bern"')
    monkeypatch.setattr("postroom.web.admin.audience.segments._SECONDS", 0.0)
    monkeypatch.setattr("postroom.services.audience.targeting.rule_rows.AT_ONCE", 1)
    url, shown = f"{HERE}/segments/size?segment=grown-up", ""
    for _ in range(5):
        shown = (await editor.get(url)).text
        following = re.findall(r'hx-get="([^"]+)"', shown)
        if not following:
            break
        url = unescape(following[0])
    assert shown.strip() == "2"
    assert "counted=" in url, "it took more than one part"
    await site.services.fields.declare("news", [])
    assert "Rule has errors" in (await editor.get(f"{HERE}/segments/size?segment=local")).text
