"""Messages and their emails through the API; calls that are repeated and count once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from postroom.domain.messages.emails import EmailOutcome
from postroom.scheduler.completion import Completion
from postroom.services import idempotency
from postroom.services.idempotency import Begun, fingerprint_of
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.holds import ACCOUNT, Fault, WaitingReasons
from postroom.transport.contract import FaultScope
from postroom.wiring import Services
from tests.integration.usecases.making import fill
from tests.integration.usecases.pages import fan_out_whole, settle, settle_waiting
from tests.services.api_server import ApiServer, serving_api

ACCEPTED, REFUSED, IN_DOUBT = EmailOutcome.ACCEPTED, EmailOutcome.REFUSED, EmailOutcome.IN_DOUBT
NEW = {"list": "news", "subject": "Hi", "text": "Hello"}
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


def test_a_missing_text_is_generated_from_the_html(client: httpx2.Client) -> None:
    new = {name: value for name, value in NEW.items() if name != "text"}
    new |= {"html": "<p>Hi <b>you</b></p>", "scheduled_at": LATER}
    for text, kept in (({}, "Hi you\n"), ({"text": ""}, None)):
        made = client.post("/messages", json={**new, **text})
        assert made.status_code == 201, made.text
        bodies = client.get(f"/messages/{made.json()['ref']}/bodies").json()
        assert bodies == {
            "html": new["html"],
            "text": kept,
            "format": "html",
            "body": new["html"],
        }


def test_a_message_is_created_read_changed_and_deleted(client: httpx2.Client) -> None:
    made = client.post("/messages", json={**NEW, "html": "<p>Hi</p>", "scheduled_at": LATER})
    assert made.status_code == 201, made.text
    shown = made.json()
    place = f"/messages/{shown['ref']}"
    assert made.headers["location"] == f"/api/v1{place}"
    assert (shown["status"], shown["scheduled_at"]) == ("Pending", "2999-01-01T08:00:00.000Z")
    assert len(shown["ref"]) == 18
    assert shown["counts"] == dict.fromkeys(
        (
            "planned",
            "pending",
            "accepted",
            "refused",
            "suppressed",
            "in_doubt",
            "possible_duplicates",
            "deferred",
        ),
        0,
    )
    assert {**client.get(place).json(), "note": None} == shown
    bodies = client.get(f"{place}/bodies").json()
    assert (bodies["html"], bodies["text"]) == ("<p>Hi</p>", "Hello")

    stale = {"If-Match": made.headers["etag"]}
    saved = client.patch(place, json={"subject": "Ho", "html": ""}, headers=stale)
    assert saved.status_code == 200, saved.text
    assert (saved.json()["subject"], saved.json()["has_html"]) == ("Ho", False)
    assert client.patch(place, json={"subject": "He"}, headers=stale).status_code == 412
    assert client.delete(place, headers=stale).status_code == 412
    assert client.delete(place).status_code == 204
    assert client.get(place).status_code == 404


@pytest.mark.parametrize("passed", [None, "2001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59"])
def test_a_time_that_has_passed_means_now(client: httpx2.Client, passed: str | None) -> None:
    made = client.post("/messages", json={**NEW, "scheduled_at": passed})
    assert made.status_code == 201, made.text
    at = datetime.fromisoformat(made.json()["scheduled_at"])
    assert at <= datetime.now(UTC)
    note = None if passed is None else "the time has passed: sending starts now"
    assert made.json()["note"] == note
    place = f"/messages/{made.json()['ref']}"
    later = client.patch(place, json={"scheduled_at": LATER})
    assert later.json()["note"] is None
    if passed is not None:
        assert client.patch(place, json={"scheduled_at": passed}).json()["note"] == note


def test_a_note_about_the_time_is_repeated_with_the_response(client: httpx2.Client) -> None:
    key = {"Idempotency-Key": "one"}
    past = {**NEW, "scheduled_at": "2001-01-01T00:00:00Z"}
    first, again = (client.post("/messages", json=past, headers=key) for _ in range(2))
    assert first.json()["note"] is not None
    assert again.json() == first.json()


@pytest.mark.parametrize("field", ["list", "subject", "html", "text", "scheduled_at"])
def test_null_is_not_a_value_of_a_message(client: httpx2.Client, field: str) -> None:
    made = client.post("/messages", json={**NEW, "scheduled_at": LATER}).json()
    place = f"/messages/{made['ref']}"
    refused = client.patch(place, json={"subject": "Ho", field: None})
    assert refused.status_code == 422, refused.text
    assert [each["field"] for each in refused.json()["errors"]] == [field]
    unchanged = client.patch(place, json={})
    assert (unchanged.status_code, unchanged.json()) == (200, made)
    assert unchanged.headers["etag"] == f'"{made["etag"]}"'
    stale = client.patch(place, json={}, headers={"If-Match": '"other"'})
    assert stale.status_code == 412


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"subject": "two\nlines"}, "subject"),
        ({"subject": "{{name}}"}, "subject"),
        ({"subject": " "}, "subject"),
        ({"text": None}, "html"),
        ({"text": "x {{nothing}}"}, "text"),
        ({"text": "  \n"}, "text"),
        ({"html": "  \n"}, "html"),
        ({"html": "<p>&nbsp;</p>"}, "html"),
        ({"scheduled_at": "tomorrow"}, "scheduled_at"),
        ({"scheduled_at": "2026-11-15T09:00:00"}, "scheduled_at"),
        ({"scheduled_at": 1_800_000_000}, "scheduled_at"),
        ({"scheduled_at": "2026-02-30T09:00:00Z"}, "scheduled_at"),
        ({"list": "no such name!"}, "list"),
    ],
)
def test_a_bad_field_is_named(client: httpx2.Client, change: dict[str, Any], field: str) -> None:
    refused = client.post("/messages", json={**NEW, **change})
    assert refused.status_code == 422, refused.text
    assert [each["field"] for each in refused.json()["errors"]] == [field]
    assert client.get("/messages").json()["items"] == []


def test_a_message_is_paused_resumed_and_cancelled_as_its_life_allows(
    client: httpx2.Client,
) -> None:
    place = f"/messages/{client.post('/messages', json=NEW).json()['ref']}"
    assert client.post(f"{place}/resume").status_code == 409
    assert client.post(f"{place}/pause").json()["status"] == "Paused"
    assert client.patch(place, json={"subject": "Ho"}).json()["subject"] == "Ho"  # nothing was sent
    assert client.delete(place).status_code == 409
    assert client.post(f"{place}/resume").json()["status"] == "Pending"
    assert client.post(f"{place}/cancel").json()["status"] == "Cancelled"
    assert client.patch(place, json={"subject": "Hi"}).status_code == 409
    refused = client.post(f"{place}/pause")
    assert refused.status_code == 409
    assert "it is final" in refused.json()["detail"]
    assert client.post("/messages/639000000000000000/pause").status_code == 404


def test_the_index_shows_open_messages_then_those_that_are_done(
    api: ApiServer, client: httpx2.Client
) -> None:
    refs = [client.post("/messages", json=NEW).json()["ref"] for _ in range(3)]
    client.post(f"/messages/{refs[0]}/cancel")

    async def archive(services: Services) -> None:
        await services.message_rows.archive(await services.messages.get(refs[0]))

    api.run(archive)
    found: list[str] = []
    after: dict[str, str] = {}
    for _ in range(10):
        page = client.get("/messages", params={"limit": 1, **after}).json()
        found += [each["ref"] for each in page["items"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert found == [refs[1], refs[2], refs[0]]
    cancelled = client.get("/messages", params={"status": "Cancelled"}).json()
    assert [each["ref"] for each in cancelled["items"]] == [refs[0]]
    pending = client.get("/messages", params={"status": "Pending"}).json()
    assert [each["ref"] for each in pending["items"]] == refs[1:]


def test_outcomes_of_emails_are_counted_listed_and_decided(
    api: ApiServer, client: httpx2.Client
) -> None:
    """250 recipients on three pages: the first refused, the second in doubt, the rest accepted."""

    ref = client.post("/messages", json=NEW).json()["ref"]
    place = f"/messages/{ref}"

    async def send(services: Services) -> None:
        await fill(services.store, (await services.lists.get("news")).name, 250)
        message = await fan_out_whole(services.store, ref)
        await settle(services, message, 0, [REFUSED, IN_DOUBT, *[ACCEPTED] * 98])
        await settle(services, message, 1, [ACCEPTED] * 100)

    api.run(send)
    shown = client.get(place).json()
    counts = shown["counts"]
    assert shown["status"] == "Processing"
    assert (counts["planned"], counts["pending"], counts["accepted"]) == (250, 50, 198)
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    for _ in range(10):
        page = client.get(f"{place}/emails", params={"limit": 60, **after}).json()
        found += page["items"]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert [each["email"] for each in found] == [f"user{n:06}@example.com" for n in range(250)]
    [refused] = client.get(f"{place}/emails", params={"outcome": "refused"}).json()["items"]
    assert refused["email"] == "user000000@example.com"
    assert client.get(f"{place}/emails/user000000@example.com").json() == refused
    assert refused["reply"]
    assert client.get(f"{place}/emails/zoe@example.com").status_code == 404

    [doubtful] = client.get(f"{place}/emails", params={"outcome": "in_doubt"}).json()["items"]
    decision = {"email": doubtful["email"], "decision": "sent"}
    assert client.post(f"{place}/decide", json=decision).json()["outcome"] == "accepted"
    assert client.post(f"{place}/decide", json=decision).status_code == 409
    assert client.post(f"{place}/retry").status_code == 409  # it is not done yet
    assert client.post(f"{place}/try-now").status_code == 409  # nothing is held

    async def hold_and_defer(services: Services) -> None:
        message = await services.messages.get(ref)
        later = datetime.now(UTC) + timedelta(hours=1)
        await settle_waiting(services, message, WaitingReasons(50, later, "450 busy"), page=2)
        await services.holds.open(Fault(FaultScope.ACCOUNT, ACCOUNT, "It is away", "refused"))

    api.run(hold_and_defer)
    shown = client.get(place).json()
    assert shown["counts"]["deferred"] == 50
    [hold] = shown["holds"]
    assert (hold["scope"], hold["reason"], hold["reply"]) == ("account", "It is away", "refused")
    tried = client.post(f"{place}/try-now")
    assert tried.status_code == 200
    assert tried.json()["holds"][0]["next_probe"] < hold["next_probe"]
    again = client.post(f"{place}/retry")
    assert (again.status_code, again.json()["ref"]) == (200, ref)

    async def finish(services: Services) -> None:
        message = await services.messages.get(ref)
        await settle(services, message, 2, [ACCEPTED] * 50)
        completion = Completion(services)
        assert await completion.check(message)

    api.run(finish)
    assert client.get(place).json()["status"] == "Completed"
    retried = client.post(f"{place}/retry")
    assert retried.status_code == 201
    assert client.post(f"{place}/retry").json()["ref"] == retried.json()["ref"]


# -- calls that are repeated ----------------------------------------------------------------------


def test_the_same_request_with_the_same_key_creates_one_message(client: httpx2.Client) -> None:
    key = {"Idempotency-Key": "one"}
    first = client.post("/messages", json=NEW, headers=key)
    again = client.post("/messages", json=NEW, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["idempotent-replayed"] == "true"
    other = client.post("/messages", json={**NEW, "subject": "Ho"}, headers=key)
    assert other.status_code == 422
    assert other.json()["errors"][0]["field"] == "Idempotency-Key"
    assert client.post("/messages", json=NEW, headers={"Idempotency-Key": "two"}).json() != again
    assert len(client.get("/messages").json()["items"]) == 2


def test_a_refused_request_does_not_use_up_its_key(client: httpx2.Client) -> None:
    key = {"Idempotency-Key": "one"}
    assert client.post("/messages", json={**NEW, "list": "nope"}, headers=key).status_code == 404
    assert client.post("/messages", json=NEW, headers=key).status_code == 201
    bad = client.post("/messages", json=NEW, headers={"Idempotency-Key": "x" * 256})
    assert bad.status_code == 422


def test_many_simultaneous_requests_with_one_key_create_one_message(api: ApiServer) -> None:
    key = {"Idempotency-Key": "one"}

    def post(_: int) -> httpx2.Response:
        with api.client() as client:
            return client.post("/messages", json=NEW, headers=key)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(post, range(16)))
    assert {each.status_code for each in answers} <= {201, 409}
    assert len({each.json()["ref"] for each in answers if each.status_code == 201}) == 1
    with api.client() as client:
        assert len(client.get("/messages").json()["items"]) == 1


def test_what_a_dead_process_started_is_completed_once(
    api: ApiServer, client: httpx2.Client
) -> None:
    """The record was made, and the message too; then the process died."""
    request = client.build_request("POST", "/messages", json=NEW)
    request.headers["Idempotency-Key"] = "one"

    async def die_half_way(services: Services) -> str:
        key_id = api.key.split("_")[1]
        begun = await services.idempotency.begin(
            key_id, "POST /api/v1/messages one", fingerprint_of(request.content)
        )
        assert isinstance(begun, Begun)
        made = await services.messages.create(
            "news", "Hi", NewBodies(text="Hello"), begun.at, ref=begun.ref
        )
        return made.ref

    ref = api.run(die_half_way)
    assert client.send(request).status_code == 409  # it may live still
    patience, idempotency.ABANDONED = idempotency.ABANDONED, timedelta(0)
    try:
        again = client.send(request)
    finally:
        idempotency.ABANDONED = patience
    assert (again.status_code, again.json()["ref"]) == (201, ref)
    assert len(client.get("/messages").json()["items"]) == 1
    assert client.send(request).json() == again.json()


def test_a_sign_up_that_is_repeated_asks_once(api: ApiServer, client: httpx2.Client) -> None:
    body = {"email_address": "ann@example.org", "list_name": "news"}
    for _ in range(3):
        answer = client.post("/subscribe", json=body, headers={"Idempotency-Key": "one"})
        assert answer.status_code == 202
    assert len(api.run(lambda s: s.store.queue("mail/confirm").peek(32))) == 1


def test_records_are_swept_after_their_time(api: ApiServer, client: httpx2.Client) -> None:
    client.post("/messages", json=NEW, headers={"Idempotency-Key": "one"})
    api.run(lambda s: s.idempotency.sweep(datetime.now(UTC) - timedelta(hours=1)))
    assert client.post("/messages", json=NEW, headers={"Idempotency-Key": "one"}).headers.get(
        "idempotent-replayed"
    )
    api.run(lambda s: s.idempotency.sweep(datetime.now(UTC) + timedelta(hours=1)))
    later = client.post("/messages", json=NEW, headers={"Idempotency-Key": "one"})
    assert "idempotent-replayed" not in later.headers
