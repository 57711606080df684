"""Queues and applications through the API."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from postroom.domain.queues.apps import parse_app
from postroom.services.queues.queue_access import Effect, Right
from postroom.wiring import Services
from tests.services.api_server import ApiServer, serving_api
from tests.services.waiting import wait_until


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("api")
    with serving_api(f"sqlite:///{folder}/api.db", folder) as server:
        yield server


@pytest.fixture
def client(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


async def put_poison(services: Services, queue: str, count: int) -> None:
    for number in range(count):
        await services.store.queue(f"{queue};poison").put(f"bad {number}")


def test_a_message_is_put_into_a_queue_and_seen_there(client: httpx2.Client) -> None:
    place = "/queues/shop%2Forders%3Fx/messages"
    made = client.post(place, json={"body": "é 1", "properties": {"kind": "order"}})
    assert made.status_code == 201, made.text
    [shown] = client.get(place).json()["items"]
    assert (shown["id"], shown["body"], shown["properties"]) == (
        made.json()["id"],
        "é 1",
        {"kind": "order"},
    )
    assert shown["is_ready"] is True
    client.post(place, json={"body": "2", "delay": 3600})
    [ready, delayed] = client.get(place).json()["items"]
    assert (ready["is_ready"], delayed["is_ready"]) == (True, False)
    assert delayed["ready_at"] > ready["ready_at"]
    [queue] = [q for q in client.get("/queues").json()["items"] if q["name"] == "shop/orders?x"]
    assert (queue["length"], queue["app"], queue["poison"]) == (2, None, 0)
    assert client.get("/queues/nowhere/messages").json() == {"items": [], "next": None}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"body": "x", "delay": -1}, "delay"),
        ({"body": "x", "ttl": 0}, "ttl"),
        ({"body": 7}, "body"),
        ({"body": "x", "properties": {"a": 1}}, "properties.a"),
        ({"body": "x", "properties": {"postroom-id": "1"}}, "properties"),
    ],
)
def test_a_bad_field_is_named(client: httpx2.Client, body: dict[str, object], field: str) -> None:
    refused = client.post("/queues/q/messages", json=body)
    assert refused.status_code == 422, refused.text
    assert [each["field"] for each in refused.json()["errors"]] == [field]
    assert client.post("/queues/q/messages", json={"body": "x" * 50_000}).status_code == 413


def test_poison_messages_are_redriven_all_one_and_at_a_rate(
    api: ApiServer, client: httpx2.Client
) -> None:
    api.run(lambda s: put_poison(s, "a/b", 4))
    poison = client.get("/queues/a%2Fb%3Bpoison/messages").json()["items"]
    one = client.post("/queues/a%2Fb/redrive", json={"id": poison[2]["id"]})
    assert (one.status_code, one.json()["redriven"]) == (200, 1)
    assert client.post("/queues/a%2Fb/redrive", json={"id": "4711"}).status_code == 404
    rest = client.post("/queues/a%2Fb/redrive")
    assert (rest.status_code, rest.json()["redriven"]) == (200, 3)
    assert len(client.get("/queues/a%2Fb/messages").json()["items"]) == 4

    api.run(lambda s: put_poison(s, "a/b", 3))
    begun = client.post("/queues/a%2Fb/redrive", json={"rate": 1000})
    assert begun.status_code == 202
    wait_until(
        lambda: len(client.get("/queues/a%2Fb/messages").json()["items"]) == 7,
        seconds=60,
        what="all are back",
    )
    assert client.post("/queues/a%2Fb%3Bretry/redrive").status_code == 404


def test_queues_are_paged_in_the_order_of_their_names(client: httpx2.Client) -> None:
    for name in ("p1", "p2", "p3"):
        client.post(f"/queues/{name}/messages", json={"body": "x"})
    names: list[str] = []
    after: dict[str, str] = {}
    for _ in range(30):
        page = client.get("/queues", params={"limit": 2, **after}).json()
        names += [each["name"] for each in page["items"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert names == sorted(set(names))
    assert {"p1", "p2", "p3"} <= set(names)


def test_all_messages_of_a_queue_are_paged_in_the_order_of_their_arrival(
    api: ApiServer, client: httpx2.Client
) -> None:
    async def put(services: Services) -> None:
        await services.store.queue("deep").put_many([str(number) for number in range(70)])

    api.run(put)
    bodies: list[str] = []
    after: dict[str, str] = {}
    for _ in range(70):
        page = client.get("/queues/deep/messages", params={"limit": 35, **after}).json()
        bodies += [each["body"] for each in page["items"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert bodies == [str(number) for number in range(70)]
    assert len(client.get("/queues/deep/messages?limit=1000").json()["items"]) == 70
    two = client.get("/queues/deep/messages", params={"limit": 1}).json()
    assert two["next"] is not None
    other = client.get("/queues/other/messages", params={"after": two["next"]})
    assert (other.status_code, other.json()["errors"][0]["field"]) == (422, "after")


def test_a_key_can_be_kept_out_of_a_queue(api: ApiServer) -> None:
    made = api.run(lambda s: s.keys.create("", ["queues"]))

    async def deny(services: Services) -> None:
        for right in (Right.SEND, Right.PEEK, Right.MANAGE):
            await services.access.set_rule(made.key.principal, right, "/secret", Effect.DENY)

    api.run(deny)
    with api.client(made.secret) as client:
        for refused in (
            client.post("/queues/secret%2Fa/messages", json={"body": "x"}),
            client.get("/queues/secret%2Fa/messages"),
            client.post("/queues/secret%2Fa/redrive"),
            client.post("/queues/secret%2Fa/redrive", json={"rate": 5}),
        ):
            assert refused.status_code == 403
            assert refused.headers["content-type"] == "application/problem+json"
        assert client.post("/queues/open/messages", json={"body": "x"}).status_code == 201


def test_applications_are_shown(api: ApiServer, client: httpx2.Client, tmp_path: Path) -> None:
    app = parse_app({"path": "/shop", "command": ["true"]}, folder=str(tmp_path), origin="a test")
    api.run(lambda s: s.apps.add(app))
    [shown] = client.get("/apps").json()["items"]
    assert (shown["path"], shown["command"], shown["hosts"]) == ("/shop", ["true"], [])
    other = parse_app({"path": "/a", "command": ["true"]}, folder=str(tmp_path), origin="a test")
    api.run(lambda s: s.apps.add(other))
    first = client.get("/apps", params={"limit": 1}).json()
    assert [each["path"] for each in first["items"]] == ["/a"]
    rest = client.get("/apps", params={"limit": 1, "after": first["next"]}).json()
    assert ([each["path"] for each in rest["items"]], rest["next"]) == (["/shop"], None)
    client.post("/queues/shop%2Forders/messages", json={"body": "x"})
    [queue] = [q for q in client.get("/queues").json()["items"] if q["name"] == "shop/orders"]
    assert queue["app"] == "/shop"


def test_an_application_is_changed_paused_and_restarted(
    api: ApiServer, client: httpx2.Client, tmp_path: Path
) -> None:
    async def prepared(services: Services) -> None:
        values = {"path": "/Mill/flour", "command": ["cat"], "environment": {"KEY": "secret"}}
        await services.apps.add(parse_app(values, folder=str(tmp_path), origin="command line"))
        await services.apps.sync(
            "mx1:/srv/postroom.toml", [parse_app({"path": "/filed", "command": ["cat"]})]
        )

    api.run(prepared)
    place = "/apps/mill%2Fflour"
    changed = client.patch(
        f"{place}/settings", json={"max_processes": 7, "cpu_limit": "10s", "memory_limit": "128MB"}
    ).json()
    assert (changed["path"], changed["max_processes"]) == ("/Mill/flour", 7)
    assert (changed["cpu_limit"], changed["memory_limit"]) == ("10s", 128_000_000)
    assert changed["environment"] == ["KEY"], "a value may be a secret"
    assert client.patch(f"{place}/settings", json={"cpu_limit": None}).json()["cpu_limit"] is None
    assert client.get(f"{place}/settings").json()["max_processes"] == 7
    assert client.post(f"{place}/pause").json()["state"] == "paused"
    assert client.post(f"{place}/resume").json()["is_paused"] is False
    assert client.post(f"{place}/restart").status_code == 200

    for wrong in ({"max_processes": 0}, {"command": ["sh"]}, {"user": "root"}, {"open_files": 1}):
        assert client.patch(f"{place}/settings", json=wrong).status_code == 422, wrong
    refused = client.patch("/apps/filed/settings", json={"max_processes": 2})
    assert refused.status_code == 409
    assert "postroom app reload" in refused.json()["detail"]
    for path in ("/apps/nowhere", "/apps/shop%3Bretry"):
        assert client.get(f"{path}/settings").status_code == 404
        assert client.post(f"{path}/pause").status_code == 404
        assert client.patch(f"{path}/settings", json={"max_processes": 2}).status_code == 404


def test_messages_are_redriven_from_the_senders_own_queue(
    api: ApiServer, client: httpx2.Client
) -> None:
    async def prepared(services: Services) -> None:
        origin = {"origin_queue": "bakery/bread"}
        await services.store.queue("senders/bread").put("rejected", properties=origin)
        await services.store.queue("senders/bread").put("another")

    api.run(prepared)
    body = {"dead_letter_queue": "senders/bread"}
    assert client.post("/queues/bakery%2Fbread/redrive", json=body).json() == {
        "redriven": 1,
        "is_over": True,
    }
    [left] = client.get("/queues/senders%2Fbread/messages").json()["items"]
    assert left["body"] == "another"
