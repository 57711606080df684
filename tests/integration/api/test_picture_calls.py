"""Pictures through the API."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.services.api_server import ApiServer, serving_api
from tests.services.pictures import animation, picture


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    url = f"sqlite:///{tmp_path}/api.db"
    with serving_api(url, tmp_path, base_url="https://mail.contoso.com") as server:
        yield server


@pytest.fixture
def client(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


def upload(client: httpx2.Client, data: bytes, name: str = "cat.png", **fields: str) -> Any:
    return client.post("/media", files={"file": (name, data)}, data=fields)


def test_a_picture_is_uploaded_found_described_and_deleted(client: httpx2.Client) -> None:
    created = upload(client, picture(), alt="A cat")
    assert created.status_code == 201, created.text
    found = created.json()
    digest = found["hash"]
    assert created.headers["location"] == f"/api/v1/media/{digest}"
    assert found["url"] == f"https://mail.contoso.com/media/{digest}.png"
    assert (found["name"], found["alt"], found["type"]) == ("cat.png", "A cat", "image/png")
    assert (found["width"], found["height"], found["animated"]) == (40, 30, False)
    assert found["uploaded_by"].startswith("key:")
    again = upload(client, picture(), "other.png")
    assert (again.status_code, again.json()) == (200, found)

    assert client.get(f"/media/{digest}").json() == {**found, "used_in": []}
    stale = {"If-Match": created.headers["etag"]}
    changed = client.patch(f"/media/{digest}", json={"alt": "A red cat"}, headers=stale)
    assert changed.json()["alt"] == "A red cat"
    assert client.patch(f"/media/{digest}", json={"alt": None}, headers=stale).status_code == 412

    assert upload(client, animation(), "moving.gif").json()["animated"] is True
    listed = client.get("/media", params={"limit": 1}).json()
    assert [each["name"] for each in listed["items"]] == ["moving.gif"]
    following = client.get("/media", params={"after": listed["next"]}).json()
    assert following["items"] == [changed.json()]
    assert [each["hash"] for each in client.get("/media?q=CAT").json()["items"]] == [digest]

    assert client.delete(f"/media/{digest}").status_code == 204
    assert client.delete(f"/media/{digest}").status_code == 404
    assert client.get(f"/media/{digest}").status_code == 404
    assert client.get("/media/nothing").status_code == 404


@pytest.mark.parametrize(
    ("data", "alt", "field", "problem"),
    [
        (b"<svg/>", "", "file", "not SVG"),
        (b"GIF89a<script>alert(1)</script>", "", "file", "must be a JPEG, PNG, GIF or WebP"),
        (bytes(5_000_001), "", "file", "must be at most 5,000,000 bytes"),
        (picture(), "x" * 501, "alt", "must have at most 500 characters, not 501"),
    ],
)
def test_what_cannot_be_stored_names_the_field(
    client: httpx2.Client, data: bytes, alt: str, field: str, problem: str
) -> None:
    refused = upload(client, data, alt=alt)
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    [error] = refused.json()["errors"]
    assert error["field"] == field
    assert problem in error["problem"]


def test_other_bodies_are_refused(client: httpx2.Client) -> None:
    assert client.post("/media", content=picture()).status_code == 415
    assert client.post("/media", json={}).status_code == 415
    multipart = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/media", content=b"no parts", headers=multipart).status_code in (400, 422)
    bare = {"content-type": "multipart/form-data"}
    assert client.post("/media", content=b"", headers=bare).status_code == 400
    wrong = client.post("/media", data={"file": "text"}, files={"alt": b"x"})
    assert wrong.json()["errors"][0]["field"] == "file"
    more = upload(client, picture(), size="large")
    assert (more.status_code, more.json()["errors"][0]["field"]) == (422, "size")
    assert upload(client, bytes(7_000_000)).status_code == 413


def test_a_picture_in_use_is_kept_and_the_message_is_named(client: httpx2.Client) -> None:
    news = {"name": "news", "description": "The news", "from_address": "news@contoso.com"}
    assert client.post("/lists", json=news).status_code == 201
    found = upload(client, picture()).json()
    message = {
        "list": "news",
        "subject": "Cats",
        "html": f'<p>Look: <img src="{found["url"]}" alt="A cat"></p>',
        "scheduled_at": "2999-01-01T00:00:00Z",
    }
    created = client.post("/messages", json=message)
    assert created.status_code == 201, created.text
    ref = created.json()["ref"]
    refused = client.delete(f"/media/{found['hash']}")
    assert refused.status_code == 409
    assert f"'Cats' ({ref})" in refused.json()["detail"]
    used_in = client.get(f"/media/{found['hash']}").json()["used_in"]
    assert used_in == [{"kind": "message", "name": ref, "title": "Cats"}]


def test_pictures_need_the_scope_of_messages(api: ApiServer) -> None:
    with api.client(api.key_for("read")) as reader:
        assert reader.get("/media").status_code == 200
        assert upload(reader, picture()).status_code == 403
    with api.client(api.key_for("lists")) as other:
        assert other.get("/media").status_code == 403
    with api.client(api.key_for("messages")) as writer:
        assert upload(writer, picture()).status_code == 201
        [entry, *_] = api.run(lambda s: s.audit.newest()).entries
        assert entry.what == "POST /api/v1/media"
