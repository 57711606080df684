"""Everything about one person, through the API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.api_server import ApiServer, serving_api

NEWS = {"name": "news", "description": "The news", "from_address": "news@contoso.com"}
ANN = "ann@example.org"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server:
        yield server


def test_a_person_is_exported_and_erased(server: ApiServer) -> None:
    with server.client() as client:
        for name in ("news", "garden"):
            assert client.post("/lists", json={**NEWS, "name": name}).status_code == 201
            body = {"email": ANN, "verified": True, "attributes": {"first_name": "Ann"}}
            assert client.post(f"/lists/{name}/subscribers", json=body).status_code == 201
        found = client.get("/personal-data", params={"email": ANN}).json()
        assert [each["list"] for each in found["lists"]] == ["garden", "news"]
        assert found["lists"][0]["attributes"] == {"first_name": "Ann"}
        assert {each["act"] for each in found["consent"]} == {"added as confirmed"}
        assert client.get("/personal-data", params={"email": "ann"}).status_code == 422
        old_id = "0b5e7c1a-6f2d-4c3e-9a8b-7d6e5f4a3b2c"
        file = f"email,uuid\n{ANN},{old_id}\n".encode()
        imported = client.post(
            "/lists/news/import",
            params={"column": "uuid=foreign_id"},
            content=file,
            headers={"Content-Type": "text/csv"},
        )
        assert imported.status_code == 200, imported.text
        found = client.get("/personal-data", params={"email": ANN}).json()
        assert found["foreign_ids"] == [{"list": "news", "id": old_id}]

        with server.client(server.key_for("read")) as reader:
            seen = reader.get("/personal-data", params={"email": ANN}).json()
            assert {each.get("guid") for each in seen["lists"]} == {None}
            assert seen["foreign_ids"] is None
            refused = reader.post("/personal-data/erase", json={"email": ANN})
            assert refused.status_code == 403
        erased = client.post("/personal-data/erase", json={"email": ANN})
        assert erased.json() == {
            "email": ANN, "lists": ["garden", "news"], "emails": 0, "waiting": []
        }  # fmt: skip
        left = client.get("/personal-data", params={"email": ANN}).json()
        assert (left["lists"], left["consent"], left["foreign_ids"]) == ([], [], [])
        assert client.post("/personal-data/erase", json={"email": ANN}).json()["lists"] == []
