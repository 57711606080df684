"""Formats, templates, rendering and preflight through the API."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.services.api_server import ApiServer, serving_api

LATER = "2999-01-01T09:00:00+01:00"
OWN = "<mjml><mj-body><mj-wrapper>{% slot content %}</mj-wrapper>{% footer %}</mj-body></mjml>"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    with serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server:
        server.run(lambda s: s.lists.create("news", "The news", "news@contoso.com"))
        yield server


@pytest.fixture
def client(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        client.post(
            "/lists/news/subscribers", json={"email": "o'ann@example.org", "verified": True}
        )
        client.post("/lists/news/subscribers", json={"email": "bob@example.org"})
        yield client


def created(client: httpx2.Client, **message: Any) -> dict[str, Any]:
    whole = {"list": "news", "subject": "For {{ email }}", "scheduled_at": LATER, **message}
    made = client.post("/messages", json=whole)
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


@pytest.mark.parametrize(
    ("format", "body"),
    [
        ("markdown", "Hello *{{ email }}*"),
        ("html", "<p>Hello <em>{{ email }}</em></p>"),
        (
            "mjml",
            "<mjml><mj-body><mj-section><mj-column><mj-text>Hello <em>{{ email }}</em></mj-text>"
            "</mj-column></mj-section></mj-body></mjml>",
        ),
        (
            "blocks",
            json.dumps(
                {
                    "version": 1,
                    "blocks": [{"type": "text", "html": "<p>Hello <em>{{ email }}</em></p>"}],
                }
            ),
        ),
    ],
)
def test_a_message_in_any_format_is_rendered_for_a_subscriber(
    client: httpx2.Client, format: str, body: str
) -> None:
    message = created(client, format=format, body=body)
    assert (message["format"], message["template"]) == (format, None)
    place = f"/messages/{message['ref']}"
    rendered = client.get(f"{place}/render", params={"email": "o'ann@example.org"}).json()
    assert rendered["subject"] == "For o'ann@example.org"
    assert "<em>o&#x27;ann@example.org</em>" in rendered["html"]
    assert "Hello o'ann@example.org" in rendered["text"]
    assert "/unsubscribe?id=" in rendered["text"]
    assert client.get(f"{place}/bodies").json()["body"] == body
    example = client.get(f"{place}/render").json()
    assert "subscriber@example.com" in example["html"]
    missing = client.get(f"{place}/render", params={"email": "nobody@example.org"})
    assert missing.status_code == 404


def test_a_draft_keeps_its_source_until_it_is_scheduled(client: httpx2.Client) -> None:
    draft = created(client, draft=True, format="markdown", body="Hi {{ nope }}")
    place = f"/messages/{draft['ref']}"
    assert client.get(f"{place}/bodies").json()["html"] is None
    refused = client.post(f"{place}/schedule", json={})
    assert refused.status_code == 422
    [error] = refused.json()["errors"]
    assert error["field"] == "body"
    assert "line 1, column 4: there is no merge field {{ nope }}" in str(error)
    changed = client.patch(place, json={"body": "---\ntitle: T\n---\nHi", "template": "newsletter"})
    assert changed.status_code == 200, changed.text
    assert changed.json()["template"] == "newsletter"
    assert client.post(f"{place}/schedule", json={"scheduled_at": LATER}).status_code == 200
    bodies = client.get(f"{place}/bodies").json()
    assert bodies["body"] == "---\ntitle: T\n---\nHi"
    assert ">T</h1>" in bodies["html"]
    locked = client.patch(place, json={"body": "New"})
    assert locked.status_code == 409
    assert "unschedule it" in locked.text
    assert client.post(f"{place}/unschedule").status_code == 200
    again = client.get(f"{place}/bodies").json()
    assert (again["html"], again["text"]) == (None, None)
    assert client.patch(place, json={"template": None}).json()["template"] is None
    assert client.patch(place, json={"template": "nope"}).status_code == 200
    unknown = client.post(f"{place}/schedule", json={})
    assert [each["field"] for each in unknown.json()["errors"]] == ["template"]


def test_a_bad_source_is_refused_with_its_position(client: httpx2.Client) -> None:
    bad = "<mjml>\n<mj-body>\n<mj-nope /></mj-body></mjml>"
    made = client.post(
        "/messages", json={"list": "news", "subject": "x", "format": "mjml", "body": bad}
    )
    assert made.status_code == 422
    assert "line 3, column 1: there is no tag <mj-nope>" in made.text


def test_templates_are_created_used_replaced_and_deleted(client: httpx2.Client) -> None:
    names = [each["name"] for each in client.get("/templates").json()["items"]]
    assert names == ["letter", "newsletter", "announcement", "digest", "invitation", "notice"]
    own = {"name": "own", "title": "Ours", "source": OWN}
    made = client.post("/templates", json=own)
    assert made.status_code == 201, made.text
    assert made.headers["location"].endswith("/templates/own")
    assert client.post("/templates", json=own).status_code == 409
    assert client.post("/templates", json={**own, "name": "letter"}).status_code == 409
    assert client.get("/templates").json()["items"][0]["name"] == "own"

    message = created(client, format="markdown", body="Hello", template="own")
    rendered = client.get(f"/messages/{message['ref']}/render").json()
    assert rendered["html"].count("/unsubscribe?id=") == 1

    source = OWN.replace("{% footer %}", "<mj-nope />")
    broken = client.put("/templates/own", json={"title": "Ours", "source": source})
    assert broken.status_code == 422
    assert f"column {OWN.index('{% footer %}') + 1}: there is no tag <mj-nope>" in broken.text
    with_slot = OWN.replace("{% footer %}", "<mj-raw>{% slot note %}</mj-raw>")
    change = {"name": "own", "title": "New", "source": with_slot}
    renamed = client.put("/templates/own", json={**change, "name": "other"})
    assert renamed.json()["errors"] == [
        {"field": "name", "problem": "must be own, as in the path, or left out, not other"}
    ]
    stale = client.put("/templates/own", json=change, headers={"If-Match": '"x"'})
    assert stale.status_code == 412
    saved = client.put("/templates/own", json=change, headers={"If-Match": made.headers["etag"]})
    assert saved.status_code == 200, saved.text
    assert saved.json()["slots"] == [{"name": "note", "required": True, "default": ""}]
    assert client.put("/templates/letter", json={**change, "name": "letter"}).status_code == 409
    assert client.delete("/templates/own").status_code == 204
    assert client.get("/templates/own").status_code == 404
    assert client.get(f"/messages/{message['ref']}/render").json() == rendered


def test_templates_come_in_parts(client: httpx2.Client) -> None:
    for name in ("b", "a"):
        body = {"name": name, "title": name, "source": OWN}
        assert client.post("/templates", json=body).status_code == 201
    whole = [each["name"] for each in client.get("/templates").json()["items"]]
    assert whole[:3] == ["a", "b", "letter"]
    for limit in (1, 2, 3, len(whole)):
        names: list[str] = []
        params = {"limit": str(limit)}
        while True:
            part = client.get("/templates", params=params).json()
            assert 1 <= len(part["items"]) <= limit
            names += [each["name"] for each in part["items"]]
            if part["next"] is None:
                break
            params["after"] = part["next"]
        assert names == whole
    first = client.get("/templates", params={"limit": "1"}).json()
    assert client.delete("/templates/a").status_code == 204
    after = client.get("/templates", params={"after": first["next"]}).json()["items"]
    assert [each["name"] for each in after] == whole[1:]


def test_preflight_finds_what_is_wrong_and_counts_the_audience(client: httpx2.Client) -> None:
    html = (
        '<img src="http://pictures.contoso.com/a.png"><a href="http://www.example.com/x">x</a>'
        '<a href="#">y</a><a href="https://contoso.com">z</a>' + "<p>long</p>" * 10_000
    )
    draft = created(client, draft=True, subject="A " * 40, html=html)
    found = client.get(f"/messages/{draft['ref']}/preflight").json()
    assert found["audience"] == {"will_receive": 1, "excluded": {"unconfirmed": 1}}
    assert [(each["level"], each["code"]) for each in found["findings"]] == [
        ("warning", "size"),
        ("warning", "alt-missing"),
        ("warning", "picture-insecure"),
        ("warning", "link-placeholder"),
        ("warning", "link-empty"),
        ("info", "subject-long"),
        ("info", "preheader-missing"),
    ]
    assert "http://www.example.com/x" in found["findings"][3]["text"]


def test_preflight_blocks_an_incomplete_message_and_an_empty_list(client: httpx2.Client) -> None:
    draft = client.post("/messages", json={"draft": True}).json()
    found = client.get(f"/messages/{draft['ref']}/preflight").json()
    assert [each["code"] for each in found["findings"]] == [
        "incomplete-list",
        "incomplete-subject",
        "incomplete-body",
    ]
    assert {each["level"] for each in found["findings"]} == {"error"}
    client.delete("/lists/news/subscribers/o'ann@example.org")
    message = created(client, html="<p>Hi</p>", preheader="Look")
    found = client.get(f"/messages/{message['ref']}/preflight").json()
    assert [(each["level"], each["code"]) for each in found["findings"]] == [("error", "nobody")]
    assert found["audience"]["will_receive"] == 0


def test_rendering_shows_no_guid_to_keys_without_the_scope_subscribers(
    api: ApiServer, client: httpx2.Client
) -> None:
    message = created(client, body="Hello {{ email }}", format="markdown")
    path = f"/messages/{message['ref']}/render"
    guid = client.get("/lists/news/subscribers/bob@example.org").json()["guid"]
    params = {"email": "bob@example.org"}
    assert guid in client.get(path, params=params).json()["html"]
    for scope in ("messages", "read"):
        with api.client(api.key_for(scope)) as reader:
            rendered = reader.get(path, params=params)
            assert rendered.status_code == 200
            assert "bob@example.org" in rendered.text
            assert guid not in rendered.text


def test_a_new_text_leaves_the_source_of_a_scheduled_message(client: httpx2.Client) -> None:
    message = created(client, body="Hello *you*", format="markdown")
    path = f"/messages/{message['ref']}"
    assert client.patch(path, json={"text": "Another text"}).status_code == 200
    assert client.post(f"{path}/unschedule").status_code == 200
    bodies = client.get(f"{path}/bodies").json()
    assert bodies["body"] == "Hello *you*"
    assert bodies["text"] == "Another text"


def test_a_null_next_to_the_body_of_a_draft_does_not_hide_it(client: httpx2.Client) -> None:
    body = {"draft": True, "html": None, "body": "Hello", "format": "markdown"}
    draft = client.post("/messages", json=body)
    assert draft.status_code == 201, draft.text
    assert client.get(f"/messages/{draft.json()['ref']}/bodies").json()["body"] == "Hello"


def test_a_message_that_requires_recipients_is_refused_without_them(client: httpx2.Client) -> None:
    whole = {"list": "news", "subject": "Hi", "text": "Hi", "require_recipients": True}
    assert client.post("/messages", json={**whole, "scheduled_at": LATER}).status_code == 201
    draft = client.post(
        "/messages", json={"list": "news", "draft": True, "subject": "Hi", "text": "x"}
    )
    client.patch("/lists/news/subscribers/o'ann@example.org", json={"blocked": "asked"})
    refused = client.post("/messages", json=whole)
    assert refused.status_code == 422
    assert "nobody on news would receive" in refused.text
    place = f"/messages/{draft.json()['ref']}"
    refused = client.post(f"{place}/schedule", json={"require_recipients": True})
    assert refused.status_code == 422
    assert client.get(place).json()["status"] == "Draft"
    assert client.post(f"{place}/schedule", json={"scheduled_at": LATER}).status_code == 200
