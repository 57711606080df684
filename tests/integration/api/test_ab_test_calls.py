"""A/B tests through the API."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest

from postroom.domain.audience.lists.list_rights import ALL_RIGHTS
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.messages import Message
from postroom.services.accounts.api_keys import Scope
from postroom.wiring import Services
from tests.integration.usecases.making import fill
from tests.integration.usecases.messages.ab_testing import click, deliver
from tests.services.api_server import ApiServer, serving_api

LATER = "2999-01-01T09:00:00+01:00"
WHOLE = {"draft": True, "list": "news", "subject": "Hi", "html": "<p>Hi</p>", "track": "aggregate"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    with serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server:
        server.run(lambda s: s.lists.create("news", "The news", "news@contoso.com"))
        yield server


@pytest.fixture
def client(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


async def _deliver(ref: str, services: Services) -> Message:
    return await deliver(services.store, ref)


def test_variants_are_created_scheduled_judged_and_the_winner_is_chosen(
    api: ApiServer, client: httpx2.Client
) -> None:
    api.run(lambda s: fill(s.store, ListName("news"), 150))
    ref = client.post("/messages", json=WHOLE).json()["ref"]
    place = f"/messages/{ref}/ab-test"
    assert client.get(place).status_code == 404
    alone = client.post(place, json={})
    assert (alone.status_code, "at least two variants" in alone.text) == (409, True)
    body = {"variants": [{"subject": "Ho"}, {"from_name": "Ann"}], "share": 60, "wait_minutes": 30}
    made = client.post(place, json=body)
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"/api/v1{place}"
    test = made.json()
    assert (test["ref"], test["state"], test["share"], test["wait_minutes"]) == (
        ref, "starting", 60, 30,
    )  # fmt: skip
    assert [(each["letter"], each["subject"], each["from_name"]) for each in test["variants"]] == [
        ("A", "Hi", ""), ("B", "Ho", ""), ("C", "Hi", "Ann"),
    ]  # fmt: skip
    assert client.post(place, json=body).status_code == 409
    assert client.post(f"/messages/{ref}/schedule", json={}).status_code == 409
    second = test["variants"][1]["ref"]
    early = client.post(f"{place}/winner", json={"winner": second})
    assert early.status_code == 409

    api.run(lambda s: s.ab_tests.advance(ref))
    for each in test["variants"]:
        api.run(partial(_deliver, str(each["ref"])))
    api.run(lambda s: click(s, second, 20))
    found = client.get(f"/messages/{second}/ab-test").json()
    assert (found["state"], found["best"], found["criterion"]) == ("running", "B", "clicks")
    assert found["confidence"] > 95
    assert found["variants"][1]["clicked"] == 20
    assert found["decides_at"] is not None
    assert client.post(f"{place}/winner", json={"winner": "1" * 18}).status_code == 422
    chosen = client.post(f"{place}/winner", json={"winner": second})
    assert (chosen.status_code, chosen.json()["winner"]) == (200, second)
    assert chosen.json()["chosen_by"]
    api.run(lambda s: s.ab_tests.advance(ref))
    done = client.get(place).json()
    assert (done["state"], done["rest_status"]) == ("done", "Pending")
    assert client.get(f"/messages/{done['rest']}").json()["subject"] == "Ho"
    assert client.delete(place).status_code == 409


def test_a_test_is_prepared_corrected_and_started_later(client: httpx2.Client) -> None:
    ref = client.post("/messages", json=WHOLE).json()["ref"]
    place = f"/messages/{ref}/ab-test"
    prepared = client.post(place, json={"draft": True, "variants": [{"body": "{{ nothing }}"}]})
    assert (prepared.status_code, prepared.json()["state"]) == (201, "draft")
    refused = client.post(place, json={"scheduled_at": LATER})
    assert refused.status_code == 422
    assert "variant B" in refused.text
    second = prepared.json()["variants"][1]["ref"]
    client.patch(f"/messages/{second}", json={"html": "<p>Ho</p>"})
    started = client.post(place, json={"scheduled_at": LATER})
    assert started.status_code == 201, started.text
    assert started.json()["scheduled_at"] == "2999-01-01T08:00:00.000Z"
    assert client.delete(place).status_code == 204
    assert client.get(place).json()["state"] == "cancelling"


def test_a_key_of_one_list_sees_no_test_of_another(api: ApiServer, client: httpx2.Client) -> None:
    api.run(lambda s: s.lists.create("other", "Other", "other@contoso.com"))
    ref = client.post("/messages", json=WHOLE).json()["ref"]
    place = f"/messages/{ref}/ab-test"
    second = client.post(place, json={"draft": True, "variants": [{"subject": "Ho"}]}).json()[
        "variants"
    ][1]["ref"]
    # Somebody moves a variant to a list that the key may not see.
    client.patch(f"/messages/{second}", json={"list": "other"})
    key = api.run(lambda s: s.keys.create("limited", (Scope.MESSAGES,), only_lists=True))
    api.run(lambda s: s.list_grants.set(key.key.principal, ListName("news"), ALL_RIGHTS))
    headers = {"Authorization": f"Bearer {key.secret}"}
    assert client.get(f"/messages/{ref}", headers=headers).status_code == 200
    for method, path, body in (
        ("GET", place, None),
        ("DELETE", place, None),
        ("POST", place, {}),
        ("POST", f"{place}/winner", {"winner": second}),
        ("GET", f"/messages/{second}/ab-test", None),
    ):
        answer = client.request(method, path, headers=headers, json=body)
        assert answer.status_code == 404, (method, path, answer.text)
