"""What only the Azure engine does: how things look in the account, what they cost, and faults."""

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web
from azure.core.exceptions import ClientAuthenticationError
from azure.data.tables.aio import TableServiceClient
from azure.storage.blob.aio import BlobServiceClient
from azure.storage.queue.aio import QueueServiceClient

from postroom.storage import (
    AccessDenied,
    AlreadyExists,
    Delete,
    Entity,
    Insert,
    InvalidName,
    InvalidStoreUrl,
    KeyRange,
    MessageToPut,
    SchemaTooNew,
    StaleETag,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
    TooLarge,
    Upsert,
    Value,
    eq,
    ge,
    gt,
    open_store,
)
from postroom.storage.azure import connection, storage_account
from postroom.storage.azure.engine import AzureStore, connect
from tests.services.stores.azurite import KEY, Azurite
from tests.services.waiting import LOOPBACK, free_ports

VARIABLE = "POSTROOM_AZURE_CONNECTION_STRING"
BLOCK = connection.BLOCK_BYTES


@pytest.fixture
def connection_string(azurite: Azurite) -> str:
    return azurite.connection_string(azurite.fresh_account())


@pytest.fixture
async def store(connection_string: str) -> AsyncIterator[AzureStore]:
    async with await connect("azure://", connection_string) as opened:
        yield opened


def sent(store: AzureStore) -> int:
    return sum(store.requests.values())


# -- how it looks in the account -------------------------------------------------------------


async def test_queues_have_a_readable_name_in_azure_and_their_real_one_with_us(
    store: AzureStore, connection_string: str
) -> None:
    await store.queue("mail/send").put("hello")
    await store.queue("한" * 100).put("hello")
    async with QueueServiceClient.from_connection_string(connection_string) as service:
        await service.create_queue("pr-of-somebody-else")
        await service.create_queue("orders")
        names = sorted([queue.name async for queue in service.list_queues()])
        [message] = await service.get_queue_client("pr-mailz2fsend").peek_messages()
    assert names[:3] == ["orders", "pr-mailz2fsend", "pr-of-somebody-else"]
    assert names[3].startswith("prx-")
    assert message.content == "aGVsbG8="
    assert [info.name for info in await store.queues()] == ["mail/send", "한" * 100]
    assert await store.wait_for_messages(timeout=1) == {"mail/send", "한" * 100}


async def test_keys_stay_readable_except_for_what_azure_forbids(
    store: AzureStore, connection_string: str
) -> None:
    keys = ["2026-01-01,7,000001", "ann@example.com", "a/b", "a',b", "x\U0001f389"]
    for key in keys:
        await store.table("people").upsert(Entity(key, key, {"N": 1}))
    async with TableServiceClient.from_connection_string(connection_string) as service:
        kept = [e["RowKey"] async for e in service.get_table_client("people").list_entities()]
    assert kept == [
        "2026-01-01,7,000001",
        "a&\ufffd,b",
        "a.\ufffdb",
        "ann@example.com",
        "x\ufffc01f389",
    ]
    assert [e.row async for e in store.table("people").scan()] == sorted(keys)


async def test_a_row_key_may_contain_a_quote_and_a_comma(store: AzureStore) -> None:
    table = store.table("people")
    await table.apply([Insert(Entity("p", "x',y", {"N": 1})), Insert(Entity("p", "x", {}))])
    await table.apply([Upsert(Entity("p", "x',y", {"N": 2})), Delete("p", "x")])
    assert [(e.row, e.properties) async for e in table.scan()] == [("x',y", {"N": 2})]


async def test_text_is_text_in_azure_until_it_is_too_long_for_filters(
    store: AzureStore, connection_string: str
) -> None:
    table = store.table("people")
    properties: dict[str, Value] = {
        "Short": "é" * 1024,
        "Long": "é" * 1025,
        "Tagged": b"\xfft:bytes",
        "Number": 7,
        "When": datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC),
    }
    await table.insert(Entity("p", "r", properties))
    async with TableServiceClient.from_connection_string(connection_string) as service:
        kept = await service.get_table_client("people").get_entity("p", "r")
    assert kept["Short"] == "é" * 1024
    assert kept["Long"] == b"\xfft:" + ("é" * 1025).encode()
    assert kept["Number"] == (7, "Edm.Int64")
    found = await table.get("p", "r")
    assert found is not None
    assert found.properties == properties
    assert [type(value) for value in found.properties.values()] == [str, str, bytes, int, datetime]


async def test_long_and_short_text_and_bytes_can_be_merged_over_each_other(
    store: AzureStore,
) -> None:
    table = store.table("people")
    await table.insert(Entity("p", "r", {"Kept": "x" * 2000, "V": ""}))
    long = "é" * 30_000
    for value in ("short", long, long.encode(), long, b"\xfft:" + long.encode(), "x", b"\xffb:"):
        await table.merge(Entity("p", "r", {"V": value}))
        found = await table.get("p", "r")
        assert found is not None
        assert found.properties == {"Kept": "x" * 2000, "V": value}


async def test_what_others_wrote_into_a_table_can_be_read(
    store: AzureStore, connection_string: str
) -> None:
    async with TableServiceClient.from_connection_string(connection_string) as service:
        table = await service.create_table("theirs")
        await table.create_entity({"PartitionKey": "%2F", "RowKey": "\ufffc", "Int32": 5})
    found = await store.table("theirs").get("%2F", "\ufffc")
    assert found is None  # such keys are kept in another way by us
    [entity] = [e async for e in store.table("theirs").scan()]
    assert (entity.partition, entity.row, entity.properties) == ("%2F", "\ufffc", {"Int32": 5})


async def test_the_stores_own_container_is_hidden_and_taken(store: AzureStore) -> None:
    assert await store.acquire_lease("scheduler", seconds=15) is not None
    assert await store.containers() == []
    with pytest.raises(InvalidName, match="must not be reserved"):
        store.container("postroom-system")


async def test_a_short_lease_is_rounded_up_and_says_so(
    store: AzureStore, connection_string: str
) -> None:
    lease = await store.acquire_lease("a/b", seconds=2.5)
    assert lease is not None
    assert lease.seconds == 15.0
    await store.release_lease(lease)
    longer = await store.acquire_lease("a/b", seconds=20.5)
    assert longer is not None
    assert (longer.seconds, longer.fencing) == (21.0, lease.fencing + 1)
    async with BlobServiceClient.from_connection_string(connection_string) as service:
        blob = service.get_blob_client("postroom-system", "leases/pr-az2fb")
        assert (await blob.get_blob_properties()).metadata["fencing"] == str(longer.fencing)


# -- what it costs ---------------------------------------------------------------------------


async def test_a_thousand_emails_cost_at_most_eighty_requests(store: AzureStore) -> None:
    people = [f"email:person{number:04}@example.com" for number in range(1000)]
    subscribers = store.table("mailinglist")
    for start in range(0, 1000, 100):
        await subscribers.apply(
            [Insert(Entity("list", row, {"Verified": True})) for row in people[start : start + 100]]
        )
    await store.queue("mail/send").put("made before")
    [warm] = await store.queue("mail/send").receive(lease=30)
    await store.queue("mail/send").delete(warm)
    for name in ("message", "messagearchive"):
        await store.table(name).upsert(Entity("made", "before", {}))
    before = sent(store)

    # Fan-out: the list in key order, a batch and a work item for each hundred.
    page: list[Entity] = []
    number = 0
    async for subscriber in subscribers.scan(KeyRange.only("list"), where=eq("Verified", True)):
        page.append(subscriber)
        if len(page) == 100:
            partition = f"2026-01-01,7,{number:06}"
            await store.table("message").apply(
                [Insert(Entity(partition, e.row, {"Status": "Pending"})) for e in page]
            )
            await store.queue("mail/send").put(f"{partition},0")
            page, number = [], number + 1
    fan_out = sent(store) - before

    # Archive: take an item, read its page, write the outcomes, remove the page and the item.
    queue = store.queue("mail/send")
    while items := await queue.receive(lease=30):
        [item] = items
        partition = item.body.rpartition(",")[0]
        emails = (await store.table("message").query(KeyRange.only(partition), limit=100)).entities
        await store.table("messagearchive").apply(
            [Insert(Entity(e.partition, e.row, {"Outcome": "accepted"})) for e in emails]
        )
        await store.table("message").apply([Delete(e.partition, e.row) for e in emails])
        await queue.delete(item)
    archive = sent(store) - before - fan_out

    print(f"fan-out {fan_out}, archive {archive} requests")
    assert fan_out <= 23
    assert fan_out + archive <= 80
    archived = [e async for e in store.table("messagearchive").scan(KeyRange.prefix("2026"))]
    assert len(archived) == 1000


async def test_single_operations_are_single_requests(store: AzureStore) -> None:
    table, queue = store.table("people"), store.queue("q")
    container = store.container("bodies")
    await table.upsert(Entity("p", "made", {}))
    await queue.put("made")
    await container.put("made", b"")

    async def cost(call: Callable[[], object]) -> int:
        before = sent(store)
        await call()  # type: ignore[misc]
        return sent(store) - before

    assert await cost(lambda: table.insert(Entity("p", "r", {"A": 1}))) == 1
    assert await cost(lambda: table.get("p", "r")) == 1
    assert await cost(lambda: table.merge(Entity("p", "r", {"B": 1}))) == 1
    assert await cost(lambda: table.query(KeyRange.only("p"), limit=1)) == 1
    assert await cost(lambda: table.delete("p", "r")) == 1
    assert await cost(lambda: queue.put("x")) == 1
    assert await cost(lambda: queue.receive(10, lease=30)) == 1
    assert await cost(lambda: container.put("a", b"x" * BLOCK)) == 1
    assert await cost(lambda: container.read("a")) == 1
    assert await cost(lambda: container.put("b", b"x" * (2 * BLOCK + 1))) == 4


async def test_a_full_page_costs_one_more_to_know_whether_it_is_the_last(
    store: AzureStore,
) -> None:
    table = store.table("people")
    for start in range(0, 1000, 100):
        await table.apply([Insert(Entity("p", f"{n:04}", {})) for n in range(start, start + 100)])
    before = sent(store)
    assert (await table.query(KeyRange.only("p"))).next is None
    assert sent(store) - before == 1  # Azurite knows; Azure may need a second
    await table.insert(Entity("p", "1000", {}))
    before = sent(store)
    result = await table.query(KeyRange.only("p"))
    assert result.next is not None
    assert sent(store) - before == 2
    assert [e.row for e in (await table.query(after=result.next)).entities] == ["1000"]


async def test_waiting_looks_less_and_less_often(store: AzureStore) -> None:
    queue = store.queue("quiet")
    before = sent(store)
    assert not await queue.wait(1.5)
    assert sent(store) - before <= 9
    before = sent(store)
    assert not await queue.wait(1.0)  # the pause goes on from where it was
    assert sent(store) - before <= 4


# -- queries ---------------------------------------------------------------------------------


async def test_a_continuation_over_partitions_sees_what_is_written_behind_it(
    store: AzureStore,
) -> None:
    table = store.table("people")
    for partition in ("a", "c"):
        await table.apply([Insert(Entity(partition, row, {})) for row in ("1", "3")])
    first = await table.query(limit=2)
    assert [(e.partition, e.row) for e in first.entities] == [("a", "1"), ("a", "3")]
    await table.insert(Entity("a", "2", {}))
    await table.insert(Entity("a", "4", {}))
    await table.insert(Entity("b", "1", {}))
    rest = await table.query(after=first.next)
    assert [(e.partition, e.row) for e in rest.entities] == [
        ("a", "4"),
        ("b", "1"),
        ("c", "1"),
        ("c", "3"),
    ]


async def test_filters_with_long_values_are_still_exact(store: AzureStore) -> None:
    table = store.table("people")
    texts = ["한" * 1023 + last for last in "글말물"]
    await table.apply([Insert(Entity("p", f"{n}", {"T": text})) for n, text in enumerate(texts)])
    where = eq("T", texts[1]) | eq("T", texts[2])
    for _ in range(3):
        where = where | eq("T", "한" * 1024)
    assert [e.row for e in (await table.query(where=where)).entities] == ["1", "2"]
    assert [e.row for e in (await table.query(where=ge("T", texts[1]))).entities] == ["1", "2"]
    found = await table.query(KeyRange.between("o" * 900, "p" * 900), KeyRange.prefix("1" * 900))
    assert found.entities == []


async def test_integers_next_to_other_types_do_not_confuse_a_filter(store: AzureStore) -> None:
    table = store.table("people")
    values: list[Value] = [1, 2**62, 5.0, True, "5", 5, -5]
    await table.apply([Insert(Entity("p", f"{n}", {"V": value})) for n, value in enumerate(values)])
    for limit in (1, 2, 1000):
        result = await table.query(where=gt("V", 1), limit=limit)
        assert [e.row for e in result.entities] == ["1", "5"][:limit]
        assert (result.next is None) == (limit >= 2)


async def test_a_batch_over_four_megabytes_is_refused_before_it_is_sent(
    store: AzureStore,
) -> None:
    """Control characters take six times their size on the way, which only Azure minds."""
    table = store.table("people")
    text = {f"P{n}": "\x01" * 1000 for n in range(15)}
    large = [Insert(Entity("p", f"{n:02}", text)) for n in range(100)]
    with pytest.raises(TooLarge):
        await table.apply(large)
    assert store.requests["table"] == 0
    await table.apply(large[:40])
    assert len((await table.query()).entities) == 40


# -- opening ---------------------------------------------------------------------------------


async def test_a_connection_string_has_to_be_set() -> None:
    with pytest.raises(InvalidStoreUrl, match=VARIABLE):
        await open_store("azure://")


@pytest.mark.parametrize(
    "text",
    [
        "SECRET",
        "AccountName=SECRET",
        "AccountKey=SECRET",
        "AccountName=a;AccountKey=SECRET*",
        "AccountName=a;AccountKey=;SECRET",
        f"AccountName=a;AccountKey={KEY};BlobEndpoint=SECRET",
        f"AccountName=a;AccountKey={KEY};BlobEndpoint=http://host:SECRET/",
        "SharedAccessSignature=SECRET",
    ],
)
async def test_a_malformed_connection_string_is_refused_and_not_repeated(
    text: str,
) -> None:
    with pytest.raises(InvalidStoreUrl) as failure:
        await open_store("azure://", text)
    assert_secret_is_kept(failure.value, "SECRET", KEY)


@pytest.mark.parametrize(
    "url", ["azure://SECRET@host", "azure://a", "azure://a/b", "azure://A.b.c"]
)
async def test_an_invalid_account_name_is_refused(url: str) -> None:
    with pytest.raises(InvalidStoreUrl) as failure:
        await open_store(url)
    assert_secret_is_kept(failure.value, "SECRET")


async def test_a_wrong_key_is_denied_and_not_repeated(
    azurite: Azurite,
) -> None:
    wrong = KEY[::-1].lstrip("=") + "=="
    with pytest.raises(AccessDenied) as failure:
        await open_store("azure://", azurite.connection_string().replace(KEY, wrong))
    assert_secret_is_kept(failure.value, wrong, wrong[:20], "sig=")


async def test_a_wrong_signature_is_denied_and_not_repeated(
    azurite: Azurite,
) -> None:
    signature = "sv=2020-08-04&ss=bqt&srt=sco&sp=rwdlacup&se=2099-01-01T00:00:00Z&sig=U0VDUkVU"
    shared = azurite.connection_string().replace(
        f"AccountKey={KEY}", f"SharedAccessSignature={signature}"
    )
    with pytest.raises(AccessDenied) as failure:
        await open_store("azure://", shared)
    assert_secret_is_kept(failure.value, "U0VDUkVU", "sig=")


async def test_an_identity_that_is_not_found_is_denied_and_its_source_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[bool] = []

    class NoIdentity:
        async def get_token(self, *scopes: str, **options: object) -> None:
            raise ClientAuthenticationError("tried with SECRET")

        async def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr(storage_account, "DefaultAzureCredential", NoIdentity)
    with pytest.raises(AccessDenied, match=r"contoso\.blob\.core\.windows\.net") as failure:
        await open_store("azure://contoso")
    assert_secret_is_kept(failure.value, "SECRET")
    assert closed == [True]


async def test_an_account_out_of_reach_is_unavailable_within_seconds(
    azurite: Azurite,
) -> None:
    [nobody] = free_ports(1)
    nowhere = Azurite(nobody, nobody, nobody).connection_string()
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match=f"{LOOPBACK}:{nobody}") as failure:
        await open_store("azure://", nowhere)
    assert time.monotonic() - started < 25
    assert_secret_is_kept(failure.value, KEY)


async def test_opening_twice_at_once_creates_one_store(connection_string: str) -> None:
    stores = await asyncio.gather(*(connect("azure://", connection_string) for _ in range(8)))
    assert {(await store.info()).schema_version for store in stores} == {1}
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    ("version", "error"), [(b"2", SchemaTooNew), (b"", StoreDamaged), (b"x", StoreDamaged)]
)
async def test_a_schema_that_is_not_ours_is_refused(
    connection_string: str, version: bytes, error: type[StoreDamaged]
) -> None:
    await (await connect("azure://", connection_string)).close()
    async with BlobServiceClient.from_connection_string(connection_string) as service:
        blob = service.get_blob_client("postroom-system", "schema-version")
        await blob.upload_blob(version, overwrite=True)
    with pytest.raises(error):
        await connect("azure://", connection_string)


async def test_a_closed_store_says_so(store: AzureStore) -> None:
    await store.queue("q").put("x")
    waiting = asyncio.create_task(store.queue("other").wait(30))
    await asyncio.sleep(0.1)
    await store.close()
    await store.close()
    for call in (
        store.table("people").get("p", "r"),
        store.queue("q").put("x"),
        store.container("bodies").read("a"),
        store.acquire_lease("a", seconds=15),
        store.info(),
        store.queues(),
        waiting,
    ):
        with pytest.raises(StoreClosed):
            await call


def assert_secret_is_kept(error: BaseException, *secrets: str) -> None:
    """No secret in the error, nor in what it was raised from or while."""
    seen: BaseException | None = error
    while seen is not None:
        for secret in secrets:
            assert secret not in f"{seen} {seen!r} {seen.args}"
        assert isinstance(seen, StoreError)
        seen = seen.__cause__ or seen.__context__


# -- faults ----------------------------------------------------------------------------------


@dataclass
class Fault:
    """What happens to one request on its way: its own answer, or the line goes dead."""

    status: int = 0
    code: str = ""
    forwarded: bool = False
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class FaultyLine:
    """A proxy before one of Azurite's services, with the faults that are to come."""

    faults: list[Fault | None] = field(default_factory=list)  # None: this one passes
    suffered: int = 0
    target: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            self.suffered += 1
        if fault is not None and not fault.forwarded:
            return self._spoil(request, fault)
        answer = await self._forward(request)
        return answer if fault is None else self._spoil(request, fault)

    async def _forward(self, request: web.Request) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name != "Host"}
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method,
                self.target + request.raw_path,
                headers=headers,
                data=io.BytesIO(await request.read()),
                skip_auto_headers=["Content-Type"],
            ) as answer,
        ):
            own = {"Transfer-Encoding", "Connection"}
            if request.method != "HEAD":
                own.add("Content-Length")
            kept = {name: value for name, value in answer.headers.items() if name not in own}
            return web.Response(status=answer.status, headers=kept, body=await answer.read())

    def _spoil(self, request: web.Request, fault: Fault) -> web.Response:
        if not fault.status:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        body = json.dumps({"odata.error": {"code": fault.code, "message": {"value": fault.code}}})
        return web.Response(
            status=fault.status,
            headers={"x-ms-error-code": fault.code, **fault.headers},
            body=body,
            content_type="application/json",
        )


@asynccontextmanager
async def faulty_line(azurite: Azurite, service: str) -> AsyncIterator[tuple[FaultyLine, Azurite]]:
    ports = {"blob": azurite.blob_port, "queue": azurite.queue_port, "table": azurite.table_port}
    line = FaultyLine(target=f"http://{LOOPBACK}:{ports[service]}")
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", line.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    [port] = free_ports(1)
    await web.TCPSite(runner, LOOPBACK, port).start()
    ports[service] = port
    try:
        yield line, Azurite(ports["blob"], ports["queue"], ports["table"])
    finally:
        await runner.cleanup()


@pytest.fixture
async def line(
    request: pytest.FixtureRequest, azurite: Azurite
) -> AsyncIterator[tuple[FaultyLine, AzureStore]]:
    async with faulty_line(azurite, request.param) as (line, reached):
        account = reached.connection_string(azurite.fresh_account())
        async with await connect("azure://", account) as store:
            yield line, store


BUSY = Fault(503, "ServerBusy")
LOST_BEFORE = Fault()
LOST_AFTER = Fault(forwarded=True)
TROUBLE = [
    BUSY,
    Fault(429, "TooManyRequests", headers={"Retry-After": "1"}),
    Fault(500, "InternalError"),
    Fault(500, "OperationTimedOut"),
    LOST_BEFORE,
]


@pytest.mark.parametrize("line", ["table"], indirect=True)
async def test_tables_are_tried_again_when_the_service_is_in_trouble(
    line: tuple[FaultyLine, AzureStore],
) -> None:
    faulty, store = line
    table = store.table("people")
    await table.upsert(Entity("p", "made", {}))
    faulty.faults = list(TROUBLE)
    await table.insert(Entity("p", "r", {"N": 1}))
    faulty.faults = list(TROUBLE)
    assert await table.get("p", "r") is not None
    faulty.faults = list(TROUBLE)
    assert len((await table.query(where=ge("N", 0))).entities) == 1
    assert faulty.suffered == 3 * len(TROUBLE)


@pytest.mark.parametrize("line", ["queue"], indirect=True)
async def test_queues_are_tried_again_when_the_service_is_in_trouble(
    line: tuple[FaultyLine, AzureStore],
) -> None:
    faulty, store = line
    queue = store.queue("q")
    await queue.put("made")
    faulty.faults = list(TROUBLE)
    await queue.put_many([MessageToPut("a"), MessageToPut("b")])
    faulty.faults = list(TROUBLE)
    messages = await queue.receive(10, lease=30)
    assert [m.body for m in messages] == ["made", "a", "b"]
    faulty.faults = list(TROUBLE)
    await queue.delete(messages[0])


@pytest.mark.parametrize("line", ["blob"], indirect=True)
async def test_blobs_are_tried_again_when_the_service_is_in_trouble(
    line: tuple[FaultyLine, AzureStore],
) -> None:
    faulty, store = line
    container = store.container("bodies")

    async def pieces() -> AsyncIterator[bytes]:
        for letter in b"abc":
            faulty.faults = list(TROUBLE[:3])
            yield bytes([letter]) * BLOCK

    await container.put("large", pieces())
    found = b""
    async for piece in container.stream("large"):
        found += piece
        faulty.faults = [LOST_AFTER, BUSY]
    assert found == b"a" * BLOCK + b"b" * BLOCK + b"c" * BLOCK


@pytest.mark.parametrize("line", ["blob"], indirect=True)
async def test_a_blob_written_by_two_at_once_is_not_reported_as_written(
    line: tuple[FaultyLine, AzureStore],
) -> None:
    faulty, store = line
    container = store.container("bodies")
    etag = await container.put("a", b"old")
    large = b"x" * (BLOCK + 1)
    faulty.faults = [None, None, Fault(400, "InvalidBlockList")]
    with pytest.raises(StoreUnavailable, match="at the same time"):
        await container.put("a", large)
    faulty.faults = [None, None, LOST_AFTER]
    with pytest.raises(StoreUnavailable, match="unknown"):
        await container.put("a", large, etag=etag)
    assert await container.read("a") == large


@pytest.mark.parametrize("line", ["table"], indirect=True)
async def test_a_write_whose_reply_is_lost_is_never_reported_wrongly(
    line: tuple[FaultyLine, AzureStore],
) -> None:
    faulty, store = line
    table = store.table("people")
    await table.upsert(Entity("p", "made", {}))
    faulty.faults = [LOST_AFTER]
    with pytest.raises(StoreUnavailable, match="unknown"):
        await table.insert(Entity("p", "r", {"N": 1}))
    found = await table.get("p", "r")
    assert found is not None
    faulty.faults = [LOST_AFTER]
    with pytest.raises(StoreUnavailable, match="unknown"):
        await table.replace(Entity("p", "r", {"N": 2}), found.etag)
    faulty.faults = [LOST_AFTER]
    await table.upsert(Entity("p", "r", {"N": 3}))  # twice is as good as once
    # Turned away is not lost: then the answer of the next try is clear.
    faulty.faults = [BUSY]
    with pytest.raises(AlreadyExists):
        await table.insert(Entity("p", "r", {}))
    faulty.faults = [BUSY]
    with pytest.raises(StaleETag):
        await table.delete("p", "r", found.etag)


@pytest.mark.parametrize("line", ["queue"], indirect=True)
async def test_a_message_whose_reply_is_lost_is_never_reported_wrongly(
    line: tuple[FaultyLine, AzureStore],
) -> None:
    faulty, store = line
    queue = store.queue("q")
    await queue.put_many(["a", "b"])
    first, second = await queue.receive(2, lease=30)
    faulty.faults = [LOST_AFTER]
    with pytest.raises(StoreUnavailable, match="unknown"):
        await queue.delete(first)
    faulty.faults = [LOST_AFTER]
    with pytest.raises(StoreUnavailable, match="unknown"):
        await queue.release(second)
    faulty.faults = [LOST_AFTER]
    await queue.put("c")  # at least once: here it is in twice
    assert [m.body for m in await queue.receive(10, lease=30)] == ["b", "c", "c"]


@pytest.mark.parametrize("line", ["queue"], indirect=True)
async def test_a_queue_that_was_just_dropped_is_waited_for(
    line: tuple[FaultyLine, AzureStore],
) -> None:
    faulty, store = line
    queue = store.queue("q")
    faulty.faults = [Fault(409, "QueueBeingDeleted")] * 4
    await queue.put("at last")
    assert faulty.suffered == 4
    faulty.faults = [Fault(409, "QueueBeingDeleted")]
    assert await queue.receive(lease=30) == []  # a reader does not wait: there is nothing


@pytest.mark.parametrize("line", ["table"], indirect=True)
async def test_the_store_is_eventually_unavailable(
    line: tuple[FaultyLine, AzureStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty, store = line
    monkeypatch.setattr(store._connection, "patience", 1.0)
    for fault in (BUSY, LOST_BEFORE):
        faulty.faults = [fault] * 100
        started = time.monotonic()
        with pytest.raises(StoreUnavailable) as failure:
            await store.table("people").get("p", "r")
        assert time.monotonic() - started < 25
        assert_secret_is_kept(failure.value, KEY)


@pytest.mark.parametrize("line", ["table"], indirect=True)
@pytest.mark.parametrize("code", ["AuthorizationFailure", "InsufficientAccountPermissions"])
async def test_a_missing_permission_is_reported_at_once(
    line: tuple[FaultyLine, AzureStore], code: str
) -> None:
    faulty, store = line
    faulty.faults = [Fault(403, code)]
    with pytest.raises(AccessDenied, match=code):
        await store.table("people").insert(Entity("p", "r", {}))
    assert not faulty.faults
