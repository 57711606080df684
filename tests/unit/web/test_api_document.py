"""The document of the API: for programs and, made from the same, for people."""

import re
from collections import Counter
from html import escape, unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from postroom.services.accounts.api_keys import SCOPES, Scope
from postroom.web.api.app import document
from postroom.web.api.problems import KINDS
from postroom.web.api.reference import docs_page

# What clients rely on.
CALLS = """
POST /lists, GET /lists, GET /lists/{name}, PATCH /lists/{name}, DELETE /lists/{name}
POST /lists/{name}/subscribers, GET /lists/{name}/subscribers
GET /lists/{name}/subscribers/{email}, PATCH /lists/{name}/subscribers/{email}
DELETE /lists/{name}/subscribers/{email}, POST /lists/{name}/import, GET /lists/{name}/export
POST /subscribe, POST /messages, GET /messages, GET /messages/{ref}, PATCH /messages/{ref}
DELETE /messages/{ref}, POST /messages/{ref}/pause, POST /messages/{ref}/resume
POST /messages/{ref}/cancel, GET /messages/{ref}/emails, GET /messages/{ref}/emails/{email}
GET /queues, GET /queues/{name}/messages, POST /queues/{name}/messages
POST /queues/{name}/redrive, GET /apps
"""


def operations() -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }


def test_every_call_is_in_the_document() -> None:
    wanted = {each.strip() for line in CALLS.splitlines() for each in line.split(",") if each}
    assert wanted <= set(operations())


def test_every_call_says_what_it_needs_and_what_it_returns() -> None:
    for name, operation in operations().items():
        assert operation["security"] == [{"key": []}]
        assert Scope(operation["x-scope"]) in SCOPES
        assert re.match("[A-Z].*[a-z]$", operation["summary"]), name
        statuses = set(operation["responses"])
        assert {"401", "403", "422", "429", "503"} <= statuses, name
        assert any(status.startswith("2") for status in statuses)
        assert ("415" in statuses) is ("requestBody" in operation), name
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"], name


def test_every_reference_has_a_target() -> None:
    found = document()
    named = set(re.findall(r"'#/components/schemas/([^']+)'", str(found)))
    assert named <= set(found["components"]["schemas"])
    assert found["openapi"].startswith("3.1")


class Page(HTMLParser):
    """What can be got wrong in a page without its own scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.open: list[str] = []
        self.headings: list[int] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag not in ("script", "style")
        assert not {"style", "onclick"} & set(given)
        if tag != "wbr":  # ends by itself
            self.open.append(tag)
        if given.get("id"):
            self.ids[str(given["id"])] += 1
        if tag == "a":
            self.links.append(str(given["href"]))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(docs_page(document(), "https://postroom.example.org"))


def test_the_page_is_well_formed_and_its_links_lead_somewhere(page: Page) -> None:
    assert page.open == []
    assert set(page.ids.values()) == {1}
    for link in page.links:
        assert link == "/api/v1/openapi.json" or link.removeprefix("#") in page.ids
    assert set(page.headings) == {2, 3}


def test_the_page_explains_every_call_and_every_problem(page: Page) -> None:
    for operation in operations().values():
        assert operation["operationId"] in page.ids
    for kind in KINDS.values():
        assert f"problem-{kind.name}" in page.ids


def test_examples_call_this_server_with_what_a_call_requires() -> None:
    html = unescape(docs_page(document(), "https://news.example.com"))

    assert 'curl https://news.example.com/api/v1/lists \\\n  -H "Authorization: Bearer' in html
    body = r"""-d '{\s*"email_address": "ann@example.com",\s*"list_name": "contoso1"\s*}'"""
    assert re.search(body, html)
    assert html.count("data-copy=") == len(operations()) + 3
    assert "example.org" not in html


def test_each_error_is_described_once() -> None:
    html = docs_page(document(), "https://news.example.com")

    for kind in KINDS.values():
        assert html.count(str(escape(kind.advice.replace("`", "")))) <= 1, kind
    assert "#problem-no-key" not in html, "any call may return it: named at the end only"


def test_everything_on_the_page_is_escaped() -> None:
    hostile = {
        **document(),
        "info": {**document()["info"], "description": "`<b>` & <script>x</script>"},
    }
    html = docs_page(hostile, "https://postroom.example.org")
    assert "<script>" not in html
    assert "<code>&lt;b&gt;</code> &amp;" in html
