"""The navigation offers what the views allow, and what a page loads stays small."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.presets import PRESETS
from postroom.services.accounts.users import Role
from postroom.web.admin.operations.search import _ACTIONS
from postroom.web.app import VIEWS
from postroom.web.rendering.navigation import ACCOUNT, GROUPS, MAIN, groups_for, places_for
from postroom.web.rendering.templating import FOLDER, STATIC

MOST_COMPRESSED = 120 * 1024
TEMPLATES = FOLDER / "templates"


def test_every_place_requires_what_its_view_requires() -> None:
    needs = {each.path: each.needs for each in VIEWS if "GET" in each.methods}
    places = [*MAIN, ACCOUNT, *_ACTIONS, *(each for group in GROUPS for each in group.places)]
    assert {each.path: each.needs for each in places} == {
        each.path: needs[each.path] for each in places
    }


@pytest.mark.parametrize("role", list(Role))
def test_nobody_is_offered_a_place_that_is_refused(role: Role) -> None:
    def may(what: Role | ListRight) -> bool:
        return role.includes(what) if isinstance(what, Role) else what in PRESETS[role]

    places = places_for(may)
    assert places[: len(MAIN)] == MAIN or role is Role.MEMBER
    assert all(may(each.needs) for each in places)
    assert all(group.places for group in groups_for(may))
    assert ("/settings" in {each.path for each in places}) == (role is Role.ADMINISTRATOR)


def test_a_page_belongs_to_the_place_that_it_is_under() -> None:
    holding = {each.path: each for each in places_for(lambda _: True)}
    assert holding["/lists"].holds("/lists/news/subscribers")
    assert not holding["/lists"].holds("/listserv")
    assert not holding["/"].holds("/lists")
    assert holding["/queues"].holds("/queue/purge")


def loaded_by(template: str) -> set[str]:
    """The style sheets and scripts that a template and its frames load."""
    text = (TEMPLATES / template).read_text()
    found = set(re.findall(r"static\('([^']+\.(?:css|js))'\)", text))
    for base in re.findall(r'{% extends "([^"]+)"', text):
        found |= loaded_by(base)
    return found


def test_style_sheets_and_scripts_of_every_page_are_small() -> None:
    pages = [str(each.relative_to(TEMPLATES)) for each in TEMPLATES.rglob("*.html")]
    sizes = {
        page: sum(len(gzip.compress(Path(STATIC / each).read_bytes())) for each in loaded_by(page))
        for page in pages
    }
    assert max(sizes.values()) > 20_000, "the frame of all pages was not found"
    assert sizes.pop("admin/messages/editor_code.html") < 250_000, "the code editor"
    assert {page: size for page, size in sizes.items() if size > MOST_COMPRESSED} == {}
