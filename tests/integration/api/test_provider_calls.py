"""Providers through the API."""

from pathlib import Path

from tests.services.api_server import serving_api


def test_a_provider_is_limited_shown_and_reset(tmp_path: Path) -> None:
    with (
        serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server,
        server.client() as client,
    ):
        assert client.get("/providers").json() == {"items": [], "next": None}
        unknown = client.get("/providers/gmail.com").json()
        assert (unknown["per_second"], unknown["hold"], unknown["throttled"]) == (None, None, 0)
        body = {"max_per_second": 20, "max_connections": 4}
        limited = client.patch("/providers/googlemail.com", json=body)
        assert limited.status_code == 200
        assert limited.json()["provider"] == "gmail.com"
        assert (limited.json()["per_second"], limited.json()["connections"]) == (20.0, 4)
        assert [each["provider"] for each in client.get("/providers").json()["items"]] == [
            "gmail.com"
        ]
        body = {"max_emails_per_connection": 40, "min_rest_minutes": 30}
        limited = client.patch("/providers/gmail.com", json=body).json()
        assert (limited["max_per_second"], limited["max_emails_per_connection"]) == (20.0, 40)
        assert (limited["emails_per_connection"], limited["rest_minutes"]) == (40, 30)
        none = {"max_emails_per_connection": None, "min_rest_minutes": None}
        usual = client.patch("/providers/gmail.com", json=none).json()
        assert (usual["emails_per_connection"], usual["rest_minutes"]) == (50, None)
        yahoo = client.get("/providers/yahoo.com").json()
        assert (yahoo["emails_per_connection"], yahoo["rest_minutes"]) == (None, 120)
        kept = client.patch("/providers/gmail.com", json={"max_connections": None}).json()
        assert (kept["max_per_second"], kept["max_connections"]) == (20.0, None)
        others = ({"max_emails_per_connection": 0}, {"min_rest_minutes": -1})
        for wrong in ({"max_per_second": 0}, {"max_connections": 0}, {"rate": 1}, *others):
            assert client.patch("/providers/gmail.com", json=wrong).status_code == 422
        assert client.get("/providers/nothing").status_code == 404
        assert client.post("/providers/gmail.com/reset").json()["max_per_second"] == 20.0


def test_a_warm_up_is_planned_shown_and_ended(tmp_path: Path) -> None:
    with (
        serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server,
        server.client() as client,
    ):
        plan = "/warm-ups/Contoso.com"
        assert client.get(plan).status_code == 404
        body = {"starts_on": "2026-11-01", "volumes": [50, 100]}
        saved = client.put(plan, json=body).json()
        assert (saved["domain"], saved["ends_on"], saved["today"]) == (
            "contoso.com",
            "2026-11-03",
            None,
        )
        started = client.put("/warm-ups/all", json={}).json()
        assert (started["today"], started["used_today"], len(started["volumes"])) == (50, 0, 15)
        found = client.get("/warm-ups").json()["items"]
        assert [each["domain"] for each in found] == ["all", "contoso.com"]
        mistakes: list[dict[str, object]] = [{"volumes": []}, {"volumes": [0]}, {"days": 3}]
        for wrong in (
            *mistakes,
            {"starts_on": "soon"},
            {"starts_on": 5},
            {"starts_on": "2026-02-30"},
        ):
            assert client.put(plan, json=wrong).status_code == 422
        late = client.put(plan, json={"starts_on": "9999-12-31"}).json()
        assert late["ends_on"] == "9999-12-31"
        assert client.delete(plan).status_code == 204
        assert client.delete(plan).status_code == 404
