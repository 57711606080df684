"""Suppressed addresses, over HTTP: search, add, lift, import, and where else they show."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest

from postroom.services.accounts.users import Role
from tests.web.site import Site, Visitor


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    await site.services.subscriptions.add("news", "ann@b.org", verified=True)
    return await site.user(Role.EDITOR)


async def test_an_address_is_suppressed_found_and_lifted(site: Site, editor: Visitor) -> None:
    assert "No suppressed addresses" in (await editor.get("/suppressions")).text
    given = {"email": "ann@b.org", "reason": "asked us", "list": "", "until": "2999-12-31"}
    saved = await editor.post("/suppressions/add", given)
    assert saved.headers["location"] == "/suppressions"
    assert "asked us" in (await editor.get("/suppressions?q=ANN")).text
    nothing = (await editor.get("/suppressions?q=bob")).text
    assert "No suppressed addresses match “bob”" in nothing
    assert "Show all suppressed addresses" in nothing
    made = await site.services.suppressions.get("ann@b.org")
    assert made.expires_at == datetime(3000, 1, 1, tzinfo=UTC), "the last day counts"
    for page in ("/lists/news/subscribers/ann@b.org", "/trace?email=ann@b.org"):
        assert "Suppressed on every list: asked us." in (await editor.get(page)).text
    again = await editor.post("/suppressions/add", given)
    assert again.status_code == 409
    assert "is already suppressed" in again.text
    question = await editor.get("/suppressions/lift?email=ann@b.org")
    assert "Lift the suppression of ann@b.org?" in question.text
    lifted = await editor.post("/suppressions/lift", {"email": "ann@b.org", "list": ""})
    assert lifted.status_code == 303
    assert not (await site.services.subscriptions.get("news", "ann@b.org")).blocked


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"email": "ann"}, "must have an @-sign"),
        ({"reason": " "}, "must not be empty"),
        ({"until": "2020-01-31"}, "must be today or a later day, not 2020-01-31"),
        ({"until": "soon"}, "must be a day such as 2027-01-31, not “soon”"),
        ({"list": "nope"}, "there is no list"),
    ],
)
async def test_a_mistake_is_shown_at_its_field(
    editor: Visitor, wrong: dict[str, str], words: str
) -> None:
    given = {"email": "ann@b.org", "reason": "asked us", "list": "", "until": "", **wrong}
    shown = await editor.post("/suppressions/add", given)
    assert shown.status_code == 422
    assert words.lower() in shown.text.lower()


async def test_editing_a_suppressed_subscriber_leaves_the_suppression_alone(
    site: Site, editor: Visitor
) -> None:
    await site.services.suppressions.suppress("ann@b.org", "complaint", source="api")
    page = "/lists/news/subscribers/ann@b.org"
    form = {"email": "ann@b.org", "verified": "yes", "blocked": "suppressed: complaint"}
    saved = await editor.post(page, {**form, "note": "called us"})
    assert saved.status_code == 303
    found = await site.services.subscriptions.get("news", "ann@b.org")
    assert (found.note, found.is_suppressed) == ("called us", True)


async def test_pages_name_what_suppressed_an_address(site: Site, editor: Visitor) -> None:
    await site.services.suppressions.suppress("ann@b.org", "complaint", source="ses")
    await site.services.suppressions.suppress("bob@b.org", "request", source="eve@b.org")
    shown = (await editor.get("/suppressions")).text
    assert "Amazon SES" in shown
    assert "eve@b.org" in shown
    assert "Source: Amazon SES, " in (await editor.get("/trace?email=ann@b.org")).text


async def test_the_history_of_an_address_says_once_when_and_why_it_was_suppressed(
    site: Site, editor: Visitor
) -> None:
    await site.services.suppressions.suppress("ann@b.org", "complaint", source="api")
    shown = (await editor.get("/trace?email=ann@b.org")).text
    history = shown[: shown.index("Consent ledger")]
    assert history.count("</a>: suppressed: complaint") == 1
    assert "</a>: blocked" not in history, "the same event"


async def test_a_file_is_imported_and_its_rejected_lines_are_shown(
    site: Site, editor: Visitor
) -> None:
    file = io.BytesIO(b"ann@b.org\nnobody\n")
    shown = await editor.post("/suppressions/import", {}, files={"file": ("out.csv", file)})
    assert "1 suppressed, 0 already suppressed, 1 rejected" in shown.text
    assert (await site.services.subscriptions.get("news", "ann@b.org")).is_suppressed
    assert "ann@b.org,,request" in (await editor.get("/suppressions/export")).text
    newest = (await site.services.audit.newest()).entries[0]
    assert newest.what == "exported suppressions"
