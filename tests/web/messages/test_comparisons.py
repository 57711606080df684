"""Two versions of a draft next to each other: what differs is shown, and is readable."""

import json
from typing import Any

import pytest

from postroom.composing.blocks.block_text import readable_blocks
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.draft_contents import ContentChange
from tests.web.site import Site, Visitor

HTMX = {"HX-Request": "true"}
FORM = {"list": "news", "subject": "Hello", "when": "now"}


def blocks(*found: dict[str, Any]) -> str:
    return json.dumps({"version": 1, "blocks": found})


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def conflict_of(editor: Visitor, format: str, first: str, theirs: str, mine: str) -> str:
    """Save a draft, their change, and mine, which is based on the first one."""
    form = {**FORM, "format": format}
    saved = (await editor.post("/messages/save", {**form, "body": first}, headers=HTMX)).json()
    other = await editor.post("/messages/save", {**form, **saved, "body": theirs}, headers=HTMX)
    assert other.status_code == 200, other.text
    answer = await editor.post("/messages/save", {**form, **saved, "body": mine}, headers=HTMX)
    assert answer.status_code == 409
    return answer.text


async def test_bodies_that_differ_only_near_the_end_are_shown_where_they_differ(
    editor: Visitor,
) -> None:
    start = "<p>The same words.</p>\n" * 1_000
    shown = await conflict_of(editor, "html", start, f"{start}<p>Hers", f"{start}<p>Mine")
    assert "Both versions are the same" not in shown
    assert "&lt;p&gt;Hers</pre>" in shown
    assert "&lt;p&gt;Mine</pre>" in shown
    assert len(shown) < 10_000


async def test_blocks_are_compared_as_text(site: Site, editor: Visitor) -> None:
    text = {"type": "text", "html": "<p>One</p><p>Two &amp; <b>three</b></p>"}
    old = blocks({"type": "heading", "text": "Winter"}, text)
    new = blocks({"type": "heading", "text": "Summer"}, text)
    shown = await conflict_of(editor, "blocks", "", old, new)
    assert "[Heading]\nWinter" in shown
    assert "[Heading]\nSummer" in shown
    assert "&#34;blocks&#34;" not in shown

    composing = site.services.composing
    [draft] = await site.services.times.drafts(limit=10)
    await composing.save(draft.ref, ContentChange(body=new), "another@contoso.example")
    page = (await editor.get(f"/messages/{draft.ref}/versions")).text
    assert "<del>Winter</del><ins>Summer</ins>" in page


async def test_blocks_that_say_the_same_are_compared_by_their_sources(editor: Visitor) -> None:
    old = blocks({"type": "text", "html": "<p>One</p>"})
    new = blocks({"type": "text", "html": "<p>One</p>\n"})
    shown = await conflict_of(editor, "blocks", "", old, new)
    assert "&#34;blocks&#34;" in shown


def test_every_part_of_a_block_is_readable() -> None:
    source = {
        "version": 1,
        "slots": {"title": "November"},
        "blocks": [
            {"type": "picture", "src": "https://x.example/a.png", "alt": "A cat", "width": 300},
            {
                "type": "columns",
                "columns": [
                    [{"type": "text", "html": "<ul><li>a</li><li>b</li></ul>"}],
                    [{"type": "button", "text": "Go", "link": "https://x.example"}],
                ],
            },
            {"type": "posts", "posts": [{"title": "First", "text": "Words", "link": ""}]},
            {"type": "divider", "condition": 'city = "Bern"'},
        ],
    }
    assert readable_blocks(json.dumps(source)).splitlines() == [
        "title: November", "",
        "[Picture]", "picture: https://x.example/a.png", "alternative text: A cat", "width: 300",
        "",
        "[Columns]",
        "[Column 1: Text]", "• a", "• b", "",
        "[Column 2: Button]", "Go", "link: https://x.example", "",
        "",
        "[List of posts]", "-", "First", "Words", "",
        "[Divider]", 'condition: city = "Bern"',
    ]  # fmt: skip


@pytest.mark.parametrize(
    "source", ["", "{", "[]", '{"blocks": 3}', '{"blocks": [{}]}', "[" * 9_000]
)
def test_what_is_not_a_document_of_blocks_is_shown_as_it_is(source: str) -> None:
    assert readable_blocks(source) == source
