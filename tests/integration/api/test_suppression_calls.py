"""Suppressions through the API."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.services.api_server import serving_api

NEWS = {"name": "news", "description": "The news", "from_address": "news@contoso.com"}
ANN = "/suppressions/ann@example.org"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx2.Client]:
    with (
        serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server,
        server.client() as client,
    ):
        assert client.post("/lists", json=NEWS).status_code == 201
        body = {"email": "ann@example.org", "verified": True}
        assert client.post("/lists/news/subscribers", json=body).status_code == 201
        yield client


def blocked(client: httpx2.Client) -> str | None:
    found: str | None = client.get("/lists/news/subscribers/ann@example.org").json()["blocked"]
    return found


def test_an_address_is_suppressed_found_and_lifted(client: httpx2.Client) -> None:
    body = {"email": "Ann@example.org", "reason": "request"}
    made = client.post("/suppressions", json=body)
    assert made.status_code == 201
    assert made.headers["location"].endswith("/suppressions/Ann@example.org")
    assert made.json()["list"] is None
    assert client.get(ANN).json()["reason"] == "request"
    assert blocked(client) == "suppressed: request"
    assert client.post("/suppressions", json=body).status_code == 409
    refused = client.patch("/lists/news/subscribers/ann@example.org", json={"blocked": None})
    assert refused.status_code == 409
    assert "lift the suppression first" in refused.json()["detail"]
    assert [each["email"] for each in client.get("/suppressions?q=ANN@").json()["items"]] == [
        "Ann@example.org"
    ]
    assert client.get("/suppressions?q=bob").json() == {"items": [], "next": None}
    assert client.delete(ANN).status_code == 204
    assert client.get(ANN).status_code == 404
    assert client.delete(ANN).status_code == 404
    assert blocked(client) is None


def test_a_suppression_of_one_list_that_ends(client: httpx2.Client) -> None:
    body = {"email": "ann@example.org", "reason": "away", "list": "news"}
    for wrong, status in (
        ({"list": "none"}, 404),
        ({"expires_at": "2020-01-01T00:00:00Z"}, 422),
        ({"reason": ""}, 422),
        ({"email": "ann"}, 422),
    ):
        assert client.post("/suppressions", json={**body, **wrong}).status_code == status
    made = client.post("/suppressions", json={**body, "expires_at": "2999-01-01T00:00:00Z"})
    assert made.status_code == 201
    assert made.json()["expires_at"] == "2999-01-01T00:00:00.000Z"
    assert client.get(ANN).status_code == 404
    assert client.get(f"{ANN}?list=news").json()["reason"] == "away"
    assert client.delete(f"{ANN}?list=news").status_code == 204


def test_pages_of_suppressions_continue(client: httpx2.Client) -> None:
    for number in range(5):
        body = {"email": f"u{number}@example.org", "reason": "request"}
        assert client.post("/suppressions", json=body).status_code == 201
    first = client.get("/suppressions?limit=3").json()
    rest = client.get(f"/suppressions?limit=3&after={first['next']}").json()
    found = [each["email"] for each in (*first["items"], *rest["items"])]
    assert found == [f"u{number}@example.org" for number in range(4, -1, -1)]
    assert rest["next"] is None


def test_a_file_is_imported_and_exported(client: httpx2.Client) -> None:
    file = "email;reason\nann@example.org;complaint\nnobody;\nbob@example.org;\n"
    headers = {"Content-Type": "text/csv"}
    report = client.post("/suppressions/import", content=file, headers=headers).json()
    assert (report["added"], report["unchanged"], report["rejected"]) == (2, 0, 1)
    assert report["errors"][0]["line"] == 3
    again = client.post("/suppressions/import", content=file, headers=headers).json()
    assert (again["added"], again["unchanged"]) == (0, 2)
    assert blocked(client) == "suppressed: complaint"
    lines = client.get("/suppressions/export").text.splitlines()
    assert lines[0] == "email,list,reason,source,created_at,expires_at"
    assert sorted(line.split(",")[:4] for line in lines[1:]) == [
        ["ann@example.org", "", "complaint", "api"],
        ["bob@example.org", "", "request", "api"],
    ]
    latin = client.post("/suppressions/import", content=b"email\n\xe4@x.org\n", headers=headers)
    assert "line 2 is not in UTF-8" in latin.json()["detail"]
    many = "".join(f"u{number}@example.org\n" for number in range(5001))
    refused = client.post("/suppressions/import", content=many, headers=headers)
    assert "must have at most 5,000 lines, not 5,001" in refused.json()["detail"]
    other = client.post("/suppressions/import", content="{}", headers=headers)
    assert "not with '{}'" in other.json()["detail"]
    assert client.get("/suppressions/import").status_code == 405
    as_json = client.post("/suppressions/import", json={})
    assert as_json.status_code == 415
