"""The registry of applications, live hosts, and rights on queues, on each engine."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from postroom.domain.errors import Exists, Invalid, NoSuch, NotAllowed, NotNow
from postroom.domain.queues.apps import BUILT_IN, COMMAND_LINE, App, AppControl
from postroom.services.queues.apps import AppRegistry
from postroom.services.queues.hosts import AppStatus, HostStatusService, ProcessStatus
from postroom.services.queues.queue_access import Right
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies

ORDERS = App("/Shop/orders", handler="orders:process", folder="/srv", origin=COMMAND_LINE)
SHOP = App("/shop", command=("cat", "-"), folder="/srv", origin=COMMAND_LINE)
FILE = "mx1:/srv/postroom.toml"
SAME_FILE_ELSEWHERE = "mx2:/srv/postroom.toml"


def changed(app: App, processes: int = 9) -> App:
    return msgspec.structs.replace(app, max_processes=processes)


async def rung(store: Store, host: str) -> bool:
    """Whether the host's bell was rung; and it is silent again."""
    queue = store.queue(f"host/bell/{host}")
    found = (await queue.info()).length > 0
    await queue.purge()
    return found


# -- the registry ---------------------------------------------------------------------------------


async def test_applications_are_registered_once_and_removed(services: Services) -> None:
    assert await services.apps.all() == []
    versions = [await services.apps.version()]
    for app in (ORDERS, SHOP):
        await services.apps.add(app)
        versions.append(await services.apps.version())
    assert await services.apps.all() == [SHOP, ORDERS]
    assert await services.apps.get("/SHOP/orders/") == ORDERS

    await services.apps.add(msgspec.structs.replace(ORDERS, origin="api"))  # the same again
    assert await services.apps.version() == versions[-1]
    with pytest.raises(Exists, match=r"'/Shop/orders' already exists.* from: command line"):
        await services.apps.add(changed(msgspec.structs.replace(ORDERS, path="/shop/ORDERS")))

    await services.apps.remove("/shop/orders")
    versions.append(await services.apps.version())
    assert await services.apps.all() == [SHOP]
    assert len(set(versions)) == 4
    with pytest.raises(NoSuch, match="application '/shop/orders'"):
        await services.apps.remove("/shop/orders")
    with pytest.raises(Invalid):
        await services.apps.get("shop")


async def test_a_better_match_takes_over_and_hands_back(services: Services) -> None:
    await services.apps.add(SHOP)
    assert (await services.apps.explain("shop/orders/7")).winner == "/shop"
    await services.apps.add(ORDERS)
    assert (await services.apps.explain("shop/orders/7")).winner == "/Shop/orders"
    await services.apps.remove(ORDERS.path)
    assert (await services.apps.explain("shop/orders/7")).winner == "/shop"


async def test_an_origin_says_what_is_registered(services: Services) -> None:
    await services.apps.sync(FILE, [ORDERS, SHOP])
    version = await services.apps.version()
    assert {app.origin for app in await services.apps.all()} == {FILE}
    await services.apps.sync(FILE, [ORDERS, SHOP])
    assert await services.apps.version() == version  # nothing has changed

    await services.apps.add(App("/other", handler="o:p", origin=COMMAND_LINE))
    await services.apps.sync(FILE, [changed(ORDERS)])
    found = {app.path: app for app in await services.apps.all()}
    assert found.keys() == {"/Shop/orders", "/other"}
    assert found["/Shop/orders"].max_processes == 9


async def test_hosts_that_start_at_once_agree(services: Services) -> None:
    apps = [ORDERS, SHOP]
    await asyncio.gather(*(services.apps.sync(BUILT_IN, apps) for _ in range(5)))
    await asyncio.gather(
        *(services.apps.sync(f"mx{n}:/f", [App("/x", handler="o:p")]) for n in range(5))
    )
    assert [app.path for app in await services.apps.all()] == ["/shop", "/Shop/orders", "/x"]


async def test_the_path_of_another_application_is_refused(services: Services) -> None:
    await services.apps.add(ORDERS)
    await services.apps.sync(FILE, [ORDERS, SHOP])  # the same configuration is fine
    assert (await services.apps.get(ORDERS.path)).origin == COMMAND_LINE
    with pytest.raises(Exists, match="from: command line"):
        await services.apps.sync(FILE, [changed(ORDERS)])
    with pytest.raises(Exists, match=r"from: mx1:/srv/postroom\.toml"):
        await services.apps.sync("mx1:/other/postroom.toml", [changed(SHOP)])


async def test_the_same_file_on_another_machine_may_be_newer(services: Services) -> None:
    await services.hosts.report("mx1-1", "mx1", [])
    await services.apps.sync(FILE, [ORDERS, SHOP])
    await services.apps.sync(SAME_FILE_ELSEWHERE, [changed(ORDERS)])
    assert (await services.apps.get(ORDERS.path)).max_processes == 9
    assert len(await services.apps.all()) == 2  # a host of the first machine still lives
    await services.hosts.forget("mx1-1")
    await services.apps.sync(SAME_FILE_ELSEWHERE, [changed(ORDERS)])
    assert [app.path for app in await services.apps.all()] == ["/Shop/orders"]


async def test_what_belongs_to_postroom_stays(services: Services) -> None:
    await services.apps.sync(BUILT_IN, [App("/mail/send", serve="postroom.hosted:serve_sender")])
    with pytest.raises(NotNow, match="part of Postroom"):
        await services.apps.remove("/mail/send")
    assert (await services.apps.explain("mail/send")).winner == "/mail/send"


async def test_many_applications_are_synchronised(services: Services, engine: str) -> None:
    count = 30 if engine == "azure" else 150
    many = [App(f"/app/{number:03}", handler="o:p") for number in range(count)]
    await services.apps.sync(FILE, many)
    assert [app.path for app in await services.apps.all()] == [app.path for app in many]
    await services.apps.sync(FILE, [])
    assert await services.apps.all() == []


async def test_a_change_is_whole_and_seen_even_if_its_bell_is_never_rung(
    services: Services, store: Store, engine: str
) -> None:
    await services.hosts.report("here-1", "here", [])

    async def attempt(fate: Fate, writes: int) -> None:
        before = await services.apps.version()
        dead = Fated(store, fate)
        await dies(AppRegistry(dead, HostStatusService(dead)).sync(FILE, [ORDERS, SHOP]))
        found = len(await services.apps.all())
        assert found in (0, 2)
        assert (await services.apps.version() != before) == bool(found)
        await services.apps.sync(FILE, [])
        await rung(store, "here-1")

    assert await cut_after_each_write(attempt) == 2


# -- hosts ----------------------------------------------------------------------------------------


async def test_live_hosts_report_the_state_of_their_applications(
    services: Services, store: Store
) -> None:
    await services.apps.add(ORDERS)
    await services.apps.add(SHOP)
    started = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
    running = AppStatus(
        "/Shop/orders", "running", processes=(ProcessStatus(42, "ready", started, 1, 17, 20_000),)
    )
    stopped = AppStatus("/shop", "stopped", "breaker open", crashes=5)
    await services.hosts.report("here-1", "here", [running, stopped])
    await services.hosts.report("there-1", "there", [AppStatus("/Shop/orders", "stopped")])

    shop, orders = await services.apps.states()

    assert [(host, machine) for host, machine, _ in orders.hosts] == [
        ("here-1", "here"),
        ("there-1", "there"),
    ]
    assert orders.hosts[0][2] == running
    assert orders.summary == "1 running"
    assert shop.summary == "breaker open"
    await services.hosts.forget("here-1")
    assert [state.summary for state in await services.apps.states()] == ["no host", "stopped"]


async def test_a_large_report_is_kept(services: Services) -> None:
    now = datetime.now(UTC)
    processes = tuple(ProcessStatus(number, "ready", now) for number in range(20))
    apps = [AppStatus(f"/앱/{number}", "running", processes=processes) for number in range(60)]
    await services.hosts.report("here-1", "here", apps)
    [report] = await services.hosts.live()
    assert list(report.apps) == apps


async def test_a_host_without_a_heartbeat_does_not_count(services: Services, store: Store) -> None:
    long_ago = HostStatusService(store, lambda: datetime.now(UTC) - timedelta(minutes=1))
    longer_ago = HostStatusService(store, lambda: datetime.now(UTC) - timedelta(hours=1))
    await longer_ago.report("dead-1", "here", [])
    await longer_ago.ring_bells("it lived then")
    await long_ago.report("silent-1", "here", [])
    await services.hosts.report("live-1", "here", [])
    await store.queue("host/bell/unknown-1").put("left behind")
    assert [report.id for report in await services.hosts.live()] == ["live-1"]

    await services.hosts.forget_killed_hosts()
    await services.hosts.ring_bells("news")

    assert [queue.name for queue in await store.queues()] == ["host/bell/live-1"]
    assert [report.id for report in await long_ago.live()] == ["live-1", "silent-1"]


async def test_every_change_rings(services: Services, store: Store) -> None:
    await services.hosts.report("here-1", "here", [])
    for change in (
        services.apps.add(ORDERS),
        services.apps.sync(FILE, [SHOP]),
        services.apps.remove(ORDERS.path),
        services.access.set_rule("app:/shop", "receive", "/shop", "deny"),
        services.access.remove_rule("app:/shop", "receive", "/shop"),
        services.queues.fault("shop", "a reason"),
        services.queues.clear_fault("shop"),
    ):
        await change
        assert await rung(store, "here-1")


async def test_options_are_changed_and_set_back(services: Services) -> None:
    await services.apps.add(ORDERS)
    tuned = await services.apps.update(
        ORDERS.path, {"max_processes": 9, "idle_timeout": "5s", "memory_limit": "100MB"}
    )
    assert (tuned.max_processes, tuned.memory_limit) == (9, 100_000_000)
    assert await services.apps.get(ORDERS.path) == tuned
    assert tuned.handler == ORDERS.handler
    back = await services.apps.update(ORDERS.path, {"memory_limit": None, "command": ["./run"]})
    assert (back.memory_limit, back.handler, back.command) == (None, "", ("./run",))
    assert back.max_processes == 9
    for changes, field in (({"max_processes": 0}, "max_processes"), ({"path": "/x"}, "path")):
        with pytest.raises(Invalid) as refused:
            await services.apps.update(ORDERS.path, changes)
        assert refused.value.field == field
    with pytest.raises(NoSuch):
        await services.apps.update("/nowhere", {"max_processes": 1})


async def test_what_is_in_a_file_or_built_in_is_changed_there(services: Services) -> None:
    await services.apps.sync(FILE, [SHOP])
    await services.apps.sync(BUILT_IN, [ORDERS])
    with pytest.raises(NotNow, match="postroom app reload"):
        await services.apps.update(SHOP.path, {"max_processes": 1})
    with pytest.raises(NotNow, match="part of Postroom"):
        await services.apps.update(ORDERS.path, {"max_processes": 1})


async def test_decisions_outlive_a_new_configuration_and_end_with_the_application(
    services: Services,
) -> None:
    await services.apps.sync(FILE, [SHOP])
    await services.apps.pause("/SHOP/")
    await services.apps.restart(SHOP.path)
    await services.apps.restart(SHOP.path)
    version = await services.apps.version()
    await services.apps.sync(FILE, [changed(SHOP)])
    assert await services.apps.version() != version
    state = await services.apps.state(SHOP.path)
    assert state.control == AppControl(is_paused=True, restarts=2)
    assert state.summary == "paused"
    await services.apps.resume(SHOP.path)
    assert (await services.apps.state(SHOP.path)).control == AppControl(restarts=2)
    await services.apps.remove(SHOP.path)
    assert not await services.apps.controls()
    for decide in (services.apps.pause, services.apps.resume, services.apps.restart):
        with pytest.raises(NoSuch):
            await decide(SHOP.path)


async def test_a_fault_of_one_queue_is_not_shown_for_its_neighbours(
    services: Services, store: Store
) -> None:
    await services.apps.add(SHOP)
    for queue in ("shop/one", "shop/two", "shop/three"):
        await store.queue(queue).put("a message")
    await services.queues.fault("shop/one", "a reason")
    denied = "needs the right receive on shop/two"
    process = ProcessStatus(1, "ready", datetime.now(UTC))
    status = AppStatus(
        SHOP.path,
        "working",
        f"shop/one is faulted; {denied}",
        (process,),
        queues={"shop/one": "shop/one is faulted", "shop/two": denied},
    )
    await services.hosts.report("here-1", "here", [status])
    states = {queue.name: queue.state for queue in await services.queue_overview.overview()}
    assert states["shop/one"] == "faulted"
    assert states["shop/two"] == denied
    assert states["shop/three"] == "1 running"
    summary = (await services.apps.state(SHOP.path)).summary
    assert summary == f"1 running; {denied}; shop/one is faulted"


async def test_the_report_of_a_killed_host_is_not_shown_for_long(
    services: Services, store: Store
) -> None:
    await services.apps.add(SHOP)
    process = ProcessStatus(1, "ready", datetime.now(UTC))
    killed = HostStatusService(store, lambda: datetime.now(UTC) - timedelta(seconds=7))
    await killed.report("there-1", "there", [AppStatus(SHOP.path, "working", "", (process,))])
    assert (await services.apps.state(SHOP.path)).summary == "no host"
    assert (await services.health.look()).processes == 0
    assert len(await services.hosts.live()) == 1, "it is rung for some time, if it is only slow"


# -- access ---------------------------------------------------------------------------------------


async def test_what_no_rule_denies_is_allowed(services: Services) -> None:
    access = services.access
    await services.apps.add(SHOP)
    assert await access.allowed("app:/shop", Right.RECEIVE, "shop/orders")
    for _ in range(3):
        await access.set_rule("app:/shop", "receive", "shop/Orders/", "deny")
        assert not await access.allowed("app:/shop", Right.RECEIVE, "shop/orders")
        await access.set_rule("app:/shop", "receive", "/SHOP/orders", "allow")
        assert await access.allowed("app:/shop", Right.RECEIVE, "shop/orders")
    assert len(await access.rules()) == 1


async def test_a_denial_holds_for_everything_below_and_wins(services: Services) -> None:
    access = services.access
    await access.set_rule("key:7", "send", "/shop", "deny")
    await access.set_rule("key:7", "send", "/shop/orders", "allow")
    await access.set_rule("key:8", "manage", "/", "deny")
    denied = {"shop", "Shop/orders", "shop/orders;poison", "shop/orders/7"}
    for queue in denied | {"shopping", "other"}:
        assert await access.allowed("key:7", Right.SEND, queue) == (queue not in denied)
        assert await access.allowed("key:7", Right.PEEK, queue)
        assert await access.allowed("key:77", Right.SEND, queue)
        assert not await access.allowed("key:8", Right.MANAGE, queue)
    await access.check(None, Right.SEND, "shop")
    with pytest.raises(NotAllowed, match="key:7 needs the right send on shop"):
        await access.check("key:7", Right.SEND, "shop")

    await access.remove_rule("key:7", "send", "/shop")
    await access.check("key:7", Right.SEND, "shop")
    with pytest.raises(NoSuch):
        await access.remove_rule("key:7", "send", "/shop")
    await access.forget("key:7")
    assert [rule.principal for rule in await access.rules()] == ["key:8"]


async def test_a_rule_for_an_unknown_application_is_refused(services: Services) -> None:
    with pytest.raises(NoSuch, match="'/shpo'"):
        await services.access.set_rule("app:/shpo", "receive", "/", "deny")
    await services.apps.add(SHOP)
    rule = await services.access.set_rule("app:/SHOP/", "receive", "/", "deny")
    assert rule.principal == SHOP.principal, "as the host will ask for it"


async def test_rules_that_cannot_be(services: Services) -> None:
    for field, rule in {
        "principal": ("user:ann", "send", "/", "deny"),
        "right": ("key:7", "fly", "/", "deny"),
        "queues": ("key:7", "send", "", "deny"),
        "effect": ("key:7", "send", "/", "perhaps"),
    }.items():
        with pytest.raises(Invalid) as refused:
            await services.access.set_rule(*rule)
        assert refused.value.field == field
    assert await services.access.rules() == []
