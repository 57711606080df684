"""Drafts through the API: created incomplete, completed, tested, scheduled and taken back."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.services.api_server import ApiServer, serving_api

LATER = "2999-01-01T09:00:00+01:00"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    with serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server:
        server.run(lambda s: s.lists.create("news", "The news", "news@contoso.com"))
        yield server


@pytest.fixture
def client(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


def refs(client: httpx2.Client, **query: str) -> list[str]:
    found = client.get("/messages", params=query).json()
    assert found["next"] is None
    return [each["ref"] for each in found["items"]]


def test_a_draft_is_created_completed_scheduled_and_unscheduled(client: httpx2.Client) -> None:
    made = client.post("/messages", json={"draft": True})
    assert made.status_code == 201, made.text
    draft = made.json()
    assert (draft["status"], draft["list"], draft["subject"]) == ("Draft", None, "")
    assert (draft["scheduled_at"], draft["format"]) == (None, "html")
    place = f"/messages/{draft['ref']}"

    early = client.post(f"{place}/schedule", json={})
    assert early.status_code == 422
    assert [each["field"] for each in early.json()["errors"]] == ["list", "subject", "body"]

    whole = {
        "list": "news", "subject": "Hi", "html": "<p>Hi</p>", "preheader": "Look",
        "from_name": "Ann", "reply_to": "ann@contoso.com",
    }  # fmt: skip
    etag = made.headers["etag"]
    saved = client.patch(place, json=whole, headers={"If-Match": etag})
    assert saved.status_code == 200, saved.text
    assert {name: saved.json()[name] for name in ("preheader", "from_name", "reply_to")} == {
        "preheader": "Look", "from_name": "Ann", "reply_to": "ann@contoso.com",
    }  # fmt: skip
    stale = client.patch(place, json={"subject": "No"}, headers={"If-Match": etag})
    assert stale.status_code == 412
    assert client.get(f"{place}/bodies").json()["body"] == "<p>Hi</p>"
    assert client.patch(place, json={"preheader": None}).json()["preheader"] == ""

    other = client.post("/messages", json={"list": "news", "subject": "Ho", "text": "x",
                                           "scheduled_at": LATER}).json()["ref"]  # fmt: skip
    assert refs(client, status="Draft") == [draft["ref"]]
    assert refs(client, status="Pending") == [other]
    assert refs(client) == [draft["ref"], other]
    first = client.get("/messages", params={"limit": "1"}).json()
    rest = client.get("/messages", params={"limit": "5", "after": first["next"]}).json()
    assert [each["ref"] for each in rest["items"]] == [other]

    scheduled = client.post(f"{place}/schedule", json={"scheduled_at": LATER})
    assert scheduled.status_code == 200, scheduled.text
    assert scheduled.json()["status"] == "Pending"
    assert scheduled.json()["scheduled_at"] == "2999-01-01T08:00:00.000Z"
    assert client.post(f"{place}/schedule", json={}).status_code == 409
    back = client.post(f"{place}/unschedule")
    assert (back.status_code, back.json()["status"]) == (200, "Draft")
    copy = client.post(f"{place}/duplicate")
    assert (copy.status_code, copy.json()["status"]) == (201, "Draft")
    assert copy.headers["location"] == f"/api/v1/messages/{copy.json()['ref']}"
    for ref in (draft["ref"], copy.json()["ref"]):
        assert client.delete(f"/messages/{ref}").status_code == 204
    assert refs(client, status="Draft") == []


def test_what_only_a_draft_may_lack_is_named(client: httpx2.Client) -> None:
    missing = client.post("/messages", json={"html": "<p>x</p>"})
    assert missing.status_code == 422
    assert [each["field"] for each in missing.json()["errors"]] == ["list", "subject"]
    both = client.post("/messages", json={"draft": True, "html": "a", "body": "a"})
    assert both.status_code == 422
    new = {"list": "news", "subject": "Hi", "format": "html", "body": "<p>x</p>"}
    made = client.post("/messages", json={**new, "scheduled_at": LATER})
    assert made.status_code == 201, made.text


def test_a_test_goes_to_several_addresses(client: httpx2.Client) -> None:
    new = {"draft": True, "list": "news", "subject": "Hi", "html": "<p>x</p>"}
    place = f"/messages/{client.post('/messages', json=new).json()['ref']}"
    sent = client.post(f"{place}/test", json={"to": ["ann@contoso.com", "bob@contoso.com"]})
    assert sent.status_code == 200, sent.text
    results = sent.json()["results"]
    assert [each["email"] for each in results] == ["ann@contoso.com", "bob@contoso.com"]
    assert {each["outcome"] for each in results} == {"accepted"}
    for wrong in ([], ["nobody"], [f"a{n}@contoso.com" for n in range(11)]):
        assert client.post(f"{place}/test", json={"to": wrong}).status_code == 422
