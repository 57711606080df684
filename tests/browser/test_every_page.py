"""Every page passes axe and html-validate, and the browser's console stays empty.

Pages come from `postroom.web.app.VIEWS`, and every template must be shown by a scene: a new page
needs an example in `tests/web/world.py`, or a scene.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import jinja2
import pyotp
import pytest
from playwright.async_api import Browser

from postroom.services.accounts import second_factor
from postroom.services.accounts.users import Role
from postroom.web.admin.accounts.login import setup_link
from postroom.web.app import VIEWS
from postroom.web.rendering.templating import FOLDER, render
from postroom.web.requests import visit
from tests.browser.support.chromium import window
from tests.browser.support.looking import Looker
from tests.browser.support.scenes import (
    ADMIN,
    CAREFUL,
    EMPTY,
    LATE,
    STRANGER,
    VIEWER,
    Scene,
    scenes_of,
)
from tests.browser.support.validating import invalid_html
from tests.services.waiting import LOOPBACK, free_ports
from tests.web.site import Site, Visitor, running_site
from tests.web.world import EXAMPLES, NOT_PAGES, furnished, shown_pages

AT_ONCE = 2
TEMPLATES = FOLDER / "templates"


@pytest.fixture
async def site(tmp_path: Path, quick_passwords: None) -> AsyncIterator[Site]:
    """A site that knows its own address: previews of emails load the list's logo from there."""
    [port] = free_ports(1)
    settings = {"port": str(port), "base_url": f"http://{LOOPBACK}:{port}"}
    async with running_site(tmp_path, settings) as running:
        yield running


class Walk:
    """Goes through scenes with a few browsers at once and keeps what was wrong."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.faults: list[str] = []
        self._headers: set[str] = set()
        self.html: dict[str, str] = {}

    async def through(
        self, site: Site, scenes: Iterable[Scene], visitors: dict[str, Visitor]
    ) -> None:
        waiting = deque(scenes)
        async with anyio.create_task_group() as walkers:
            for _ in range(AT_ONCE):
                walkers.start_soon(self._one, site, waiting, visitors)

    async def _one(self, site: Site, waiting: deque[Scene], visitors: dict[str, Visitor]) -> None:
        async with AsyncExitStack() as stack:
            lookers: dict[str, Looker] = {}
            while waiting:
                scene = waiting.popleft()
                if scene.who not in lookers:
                    context = await stack.enter_async_context(
                        window(self._browser, site.url, whose=visitors.get(scene.who))
                    )
                    page = await context.new_page()
                    lookers[scene.who] = await Looker.open(page, site.url, self._headers)
                await self._look(lookers[scene.who], scene)

    async def _look(self, looker: Looker, scene: Scene) -> None:
        await scene.prepare(looker.page)
        looker.begin()
        response = await scene.open(looker.page)
        found = await looker.examine(response)
        self.faults += [f"{scene.name}: {each}" for each in found]
        self.html[f"{scene.name} ({response.status})"] = await response.text()


def whole_pages() -> set[str]:
    """The templates that are pages, and not parts or frames of others."""
    sources = {str(f.relative_to(TEMPLATES)): f.read_text() for f in TEMPLATES.rglob("*.html")}
    extends = {name: re.findall(r'{% extends "([^"]+)"', text) for name, text in sources.items()}
    frames = {base for bases in extends.values() for base in bases}
    return {name for name, bases in extends.items() if bases} - frames


def test_every_page_has_an_example() -> None:
    paths = {page.path for page in VIEWS if "GET" in page.methods}
    assert sorted(set(shown_pages()) - set(EXAMPLES)) == [], "add them to tests/web/world.py"
    assert sorted((set(EXAMPLES) | NOT_PAGES) - paths) == [], "there is no such page any more"


@pytest.mark.timeout(1200)  # two hundred pages: a limit for a walk that hangs
async def test_every_page_is_sound(
    browser: Browser, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()

    def remembered(
        environment: jinja2.Environment, template: str, values: dict[str, object]
    ) -> str:
        seen.add(template)
        return render(environment, template, values)

    monkeypatch.setattr(visit, "render", remembered)
    walk = Walk(browser)
    world = await furnished(site)
    visitors = {ADMIN: world.admin}
    viewer = await site.user(Role.VIEWER, "another@example.org")
    careful = await site.user(Role.EDITOR, "careful@example.org")
    secret = second_factor.new_secret()
    await site.services.users.turn_on_second_factor(
        "careful@example.org", secret, pyotp.TOTP(secret).now()
    )
    late = await site.user(Role.ADMINISTRATOR, "late@example.org")
    await site.outlast_confirmation(late)
    visitors |= {VIEWER: viewer, CAREFUL: careful, LATE: late}
    await walk.through(site, scenes_of(world), visitors)
    await walk_through_nothing(walk, tmp_path)

    assert "\n".join(walk.faults + invalid_html(walk.html, tmp_path)) == ""
    assert sorted(whole_pages() - seen) == [], "no scene shows these templates"


async def walk_through_nothing(walk: Walk, folder: Path) -> None:
    """A site that was started a moment ago, and one whose emails really leave."""
    settings = {"transport": "smtp://127.0.0.1:9"}
    async with (
        running_site(folder / "empty") as empty,
        running_site(folder / "other", settings) as other,
    ):
        token = setup_link(other.context).partition("/setup")[2]
        first = [Scene(STRANGER, f"/setup{token}"), Scene(STRANGER, "/subscribe")]
        wrong = Scene(STRANGER, f"/setup{token}", "/setup", {"email": "x", "password": "short"})
        forgotten = [
            Scene(STRANGER, "/forgotten"),
            Scene(STRANGER, "/forgotten", "/forgotten", {"email": "x"}),
            Scene(STRANGER, "/forgotten", "/forgotten", {"email": "nobody@example.org"}),
        ]
        await walk.through(other, [*first, wrong, *forgotten], {})
        admins = {each: await each.user(Role.ADMINISTRATOR) for each in (empty, other)}
        for each, paths in ((empty, EMPTY), (other, ("/outbox", "/settings/mail-server"))):
            scenes = [Scene(ADMIN, path) for path in paths]
            await walk.through(each, scenes, {ADMIN: admins[each]})
