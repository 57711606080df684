"""Who may call: keys, their scopes, how often; and what a hostile client gets."""

import json
import re
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from postroom.domain.rate_limits import RateLimiter
from postroom.services.accounts import api_keys
from postroom.web.api import middleware
from postroom.web.api.cursors import Cursor, IndexName
from tests.services.api_server import ApiServer, serving_api
from tests.services.postroom import CommandLine
from tests.services.waiting import wait_until

PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("api")
    with serving_api(f"sqlite:///{folder}/api.db", folder) as server:
        server.run(lambda s: s.lists.create("news", "The news", "news@contoso.com"))
        yield server


@pytest.fixture(scope="module")
def client(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


# -- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer nonsense", "Basic abc", "Bearer pr_000000000000_" + "x" * 43]
)
def test_without_a_valid_key_every_call_is_refused(api: ApiServer, header: str) -> None:
    with api.client("") as client:
        for path in ("/lists", "/nowhere"):
            refused = client.get(path, headers={"Authorization": header} if header else {})
            assert refused.status_code == 401
            assert refused.headers["content-type"] == PROBLEM
            assert refused.headers["www-authenticate"].startswith("Bearer ")
        assert client.get("/openapi.json").status_code == 200


def test_a_key_with_one_letter_changed_is_refused(api: ApiServer) -> None:
    last = "A" if api.key[-2] != "A" else "B"
    with api.client(api.key[:-2] + last + api.key[-1]) as client:
        assert client.get("/lists").status_code == 401


CALLS = [
    ("subscribe", "POST", "/subscribe"),
    ("lists", "POST", "/lists"),
    ("lists", "GET", "/lists"),
    ("subscribers", "GET", "/lists/news/export"),
    ("subscribers", "POST", "/lists/news/import"),
    ("messages", "POST", "/messages"),
    ("messages", "GET", "/messages/639000000000000000/emails"),
    ("queues", "GET", "/queues"),
    ("queues", "POST", "/queues/a%2Fb/messages"),
    ("queues", "GET", "/apps"),
]


@pytest.mark.parametrize("scope", ["subscribe", "lists", "subscribers", "messages", "queues"])
def test_a_scope_opens_its_own_calls_and_no_others(api: ApiServer, scope: str) -> None:
    with api.client(api.key_for(scope)) as client:
        for needed, method, path in CALLS:
            status = client.request(method, path, json={}).status_code
            assert (status == 403) is (needed != scope), (scope, method, path, status)
        refused = client.get("/apps" if scope != "queues" else "/lists")
        assert refused.headers["content-type"] == PROBLEM
        assert ("'queues'" if scope != "queues" else "'lists'") in refused.json()["detail"]


def test_the_scope_read_reads_everything_and_changes_nothing(api: ApiServer) -> None:
    with api.client(api.key_for("read")) as client:
        for _, method, path in CALLS:
            status = client.request(method, path, json={}).status_code
            assert (status == 403) is (method != "GET"), (method, path, status)


def test_a_revoked_key_is_refused_and_its_last_use_is_known(api: ApiServer) -> None:
    made = api.run(lambda s: s.keys.create("for a while"))
    with api.client(made.secret) as client:
        assert client.get("/lists").status_code == 200

        def is_noted() -> bool:
            [key] = [each for each in api.run(lambda s: s.keys.all()) if each.id == made.key.id]
            return key.last_used_at is not None

        wait_until(is_noted, seconds=30, what="the last use is noted")
        api.run(lambda s: s.keys.revoke(made.key.id))
        assert client.get("/lists").status_code == 401


def test_keys_are_created_shown_and_revoked_on_the_command_line(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    made = cli.json("apikey", "create", "--name", "the shop", "--scope", "subscribe")
    assert re.fullmatch(r"pr_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", made["key"])
    [shown] = cli.json("apikey", "ls")["items"]
    assert (shown["name"], shown["scopes"]) == ("the shop", ["subscribe"])
    assert shown["last_used_at"] is None
    assert made["key"] not in cli.ok("apikey", "ls")
    assert cli.ok("apikey", "create").strip().startswith("pr_")
    cli.misused("apikey", "create", "--scope", "everything")
    cli.ok("apikey", "revoke", shown["id"])
    assert "there is no API key" in cli.fails("apikey", "revoke", shown["id"])
    files = b"".join(file.read_bytes() for file in (tmp_path / "postroom-data").iterdir())
    _, _, secret = made["key"].split("_", maxsplit=2)  # the secret may contain "_" itself
    assert len(secret) == 43
    assert secret.encode() not in files


def test_another_process_learns_of_a_revoked_key(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory of a key is short."""
    assert api_keys.CACHE_SECONDS <= 5
    monkeypatch.setattr(api_keys, "CACHE_SECONDS", 0.2)
    made = api.run(lambda s: s.keys.create())

    async def remove_behind_its_back(services: Any) -> None:
        await services.store.table("apikeys").delete("key", made.key.id)

    with api.client(made.secret) as client:
        assert client.get("/lists").status_code == 200
        api.run(remove_behind_its_back)
        wait_until(
            lambda: client.get("/lists").status_code == 401,
            seconds=60,
            what="the key is refused",
        )


# -- how often ------------------------------------------------------------------------------------


def test_calls_are_counted_and_too_many_get_429(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute's worth at once, and no more: the clock stands still."""
    monkeypatch.setattr(middleware, "RateLimiter", partial(RateLimiter, clock=lambda: 0.0))
    with (
        serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path, api_rate="1") as api,
        api.client() as client,
    ):
        left = [int(client.get("/lists").headers["ratelimit-remaining"]) for _ in range(60)]
        assert left == list(range(59, -1, -1))
        refused = client.get("/lists")
        assert refused.status_code == 429
        assert refused.headers["content-type"] == PROBLEM
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["ratelimit-limit"] == "60"
        assert refused.headers["ratelimit-reset"] == "60"
        with api.client(api.key_for()) as other:
            assert other.get("/lists").status_code == 200


# -- hostile clients ------------------------------------------------------------------------------

HOSTILE = [
    "\0",
    "\x1b[31m",
    "x" * 1_000_000,
    "'; DROP TABLE t_mailinglist; --",
    "<script>alert(1)</script>",
    "a\r\nBcc: all@example.org",
    "\u202ecba",
    "\u2028",
    "😀" * 300,
    "../../etc/passwd",
    "%00%ff",
    "{{email}",
    "\ud800",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_never_a_fault(client: httpx2.Client, text: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/lists": {"name": text, "description": text, "from_address": text},
        "/subscribe": {"email_address": text, "list_name": text, "language": text},
        "/lists/news/subscribers": {"email": text},
        "/messages": {
            "list": "news", "subject": text, "html": text, "text": text, "scheduled_at": text,
        },
        "/messages/639000000000000000/decide": {"email": text, "decision": text},
        "/queues/q/redrive": {"id": text},
    }  # fmt: skip
    headers = {"content-type": "application/json"}
    for path, body in bodies.items():
        refused = client.post(path, content=json.dumps(body), headers=headers)
        assert 400 <= refused.status_code < 500, (path, refused.text)
        assert refused.headers["content-type"] == PROBLEM
        renamed = client.post(path, content=json.dumps({text: text}), headers=headers)
        assert 400 <= renamed.status_code < 500, (path, renamed.text)
    put = client.post("/queues/q/messages", content=json.dumps({"body": text}), headers=headers)
    assert put.status_code in (201, 413, 422), put.text


@pytest.mark.parametrize(
    "path",
    [
        "/lists/%00", "/lists/%ff%fe", "/lists/..%2f..", "/lists/%0a", "/lists/%ed%a0%80",
        "/lists/news/subscribers/%00", "/lists/news/subscribers/", "/lists/news/subscribers/%20",
        "/messages/1", "/messages/%0d%0a", "/messages/٦٣٩٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠",
        "/messages/639000000000000000/emails/%00", "/queues/%00/messages",
        "/queues//messages", "/lists/", "/nowhere", "/" + "x" * 5000,
    ],
)  # fmt: skip
def test_nonsense_in_a_path_is_not_found(client: httpx2.Client, path: str) -> None:
    for method in ("GET", "DELETE", "POST"):
        answer = client.request(method, path, json={} if method == "POST" else None)
        assert answer.status_code in (404, 405), (method, answer.text)
        assert answer.headers["content-type"] == PROBLEM


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=1001", "limit=ten", "limit=1.0", "limit=", "limit=%00",
        "after=nonsense", "after=", "after=%00", "after=" + "W" * 5000,
    ],
)  # fmt: skip
def test_nonsense_in_a_query_names_the_parameter(client: httpx2.Client, query: str) -> None:
    for path in (
        "/lists",
        "/lists/news/subscribers",
        "/messages",
        "/queues",
        "/queues/q/messages",
        "/apps",
    ):
        refused = client.get(f"{path}?{query}")
        assert refused.status_code == 422, refused.text
        assert [each["field"] for each in refused.json()["errors"]] == [query.partition("=")[0]]


@pytest.mark.parametrize("token", ["WyIi", "WyJhIl0", "WyJhIiwiYiJd", "WyIAIl0", "WyKKKK"])
def test_an_invented_cursor_is_not_a_server_error(client: httpx2.Client, token: str) -> None:
    ref = client.post("/messages", json={"list": "news", "subject": "x", "text": "x"}).json()["ref"]
    for path in (
        "/lists",
        "/lists/news/subscribers",
        "/messages",
        f"/messages/{ref}/emails",
        "/queues",
    ):
        refused = client.get(path, params={"after": token})
        assert refused.status_code in (404, 422)
        assert refused.headers["content-type"] == PROBLEM


def test_a_cursor_of_another_index_is_refused_with_its_parameter(
    api: ApiServer, client: httpx2.Client, tmp_path: Path
) -> None:
    """Also one that was cut off, and one of the same kind that is somebody else's."""
    ref = client.post("/messages", json={"list": "news", "subject": "x", "text": "x"}).json()["ref"]
    tokens = {
        "/lists": Cursor(None, IndexName.LISTS).next("x"),
        "/lists/news/subscribers": Cursor(None, IndexName.SUBSCRIBERS, "news").next("x"),
        "/messages": Cursor(None, IndexName.MESSAGES).next("x"),
        f"/messages/{ref}/emails": Cursor(None, IndexName.EMAILS, ref).next("x"),
        "/queues": Cursor(None, IndexName.QUEUES).next("x"),
        "/queues/q/messages": Cursor(None, IndexName.QUEUE_MESSAGES, "q").next("x"),
        "/apps": Cursor(None, IndexName.APPS).next("x"),
    }
    others = [Cursor(None, index, "other").next("x") for index in IndexName]
    for path, own in tokens.items():
        wrong = [*others, *(token for token in tokens.values() if token != own)]
        for token in [*wrong, str(own)[:-1], str(own)[:-4]]:
            refused = client.get(path, params={"after": token})
            assert refused.status_code == 422, (path, token, refused.text)
            assert [each["field"] for each in refused.json()["errors"]] == ["after"]


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff\xfe{}", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"1" * 10_000, "application/json", 400),
        (b"[]", "application/json", 422),
        (b"null", "application/json", 422),
        (b"NaN", "application/json", 422),
        (b"", "application/json", 422),
        (b"{}", "application/json", 422),
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b'{"name": "' + b"x" * 3_000_000 + b'"}', "application/json", 413),
    ],
)
def test_each_kind_of_unusable_body_has_its_own_error(
    client: httpx2.Client, content: bytes, media_type: str, status: int
) -> None:
    headers = {"content-type": media_type} if media_type else {}
    refused = client.post("/lists", content=content, headers=headers)
    assert refused.status_code == status, refused.text
    assert refused.headers["content-type"] == PROBLEM


def test_an_unknown_method_gets_405_with_the_allowed_ones(client: httpx2.Client) -> None:
    refused = client.put("/lists/news", json={})
    assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")
    assert refused.headers["content-type"] == PROBLEM


@pytest.mark.parametrize(
    "path",
    [
        "/lists", "/lists/news", "/lists/nowhere", "/lists?limit=0", "/lists/news/export",
        "/messages", "/queues", "/queues/q/messages", "/apps", "/openapi.json",
    ],
)  # fmt: skip
def test_head_answers_like_get_without_the_body(client: httpx2.Client, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    for name in ("content-type", "content-length", "etag", "content-disposition"):
        assert head.headers.get(name) == got.headers.get(name)


def test_head_needs_what_get_needs_and_is_not_for_what_has_no_get(
    api: ApiServer, client: httpx2.Client
) -> None:
    with api.client("") as nobody, api.client(api.key_for("read")) as reader:
        assert nobody.head("/lists").status_code == 401
        assert reader.head("/lists").status_code == 200
    refused = client.head("/subscribe")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_a_client_that_goes_away_leaves_nothing_behind(
    api: ApiServer, client: httpx2.Client
) -> None:
    """In the middle of an upload: the server answers others as before."""
    port = int(api.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(
            b"POST /api/v1/lists/news/import HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n"
            b"Authorization: Bearer " + api.key.encode() + b"\r\nContent-Length: 1000\r\n\r\nemail"
        )
    assert client.get("/lists/news/subscribers").json()["items"] == []


def test_the_server_reports_that_it_is_alive_and_whether_it_is_ready(api: ApiServer) -> None:
    with httpx2.Client(base_url=api.url) as anybody:
        assert anybody.get("/healthz").status_code == 200
        assert anybody.get("/readyz").json() == {"status": "ok"}


def test_without_its_store_the_server_says_so(tmp_path: Path) -> None:
    with (
        serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as api,
        api.client() as client,
        httpx2.Client(base_url=api.url) as anybody,
    ):
        assert client.get("/lists").status_code == 200
        api.run(lambda s: s.keys.settle())
        api.run(lambda s: s.store.close())
        refused = client.get("/lists")
        assert refused.status_code == 503
        assert refused.headers["content-type"] == PROBLEM
        assert int(refused.headers["retry-after"]) >= 1
        assert anybody.get("/readyz").status_code == 503
        assert anybody.get("/healthz").status_code == 200
