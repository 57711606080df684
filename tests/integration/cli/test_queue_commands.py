"""`postroom app` and `postroom queue` as a user types them."""

import asyncio
import json
import signal
from pathlib import Path

import msgspec
import pytest

from postroom.domain.queues.app_options import OnPoison
from postroom.domain.queues.apps import App
from postroom.services.queues.attempts import AttemptFailure
from postroom.storage import open_store
from postroom.wiring import Services
from tests.services.postroom import CommandLine
from tests.services.process import default_signals
from tests.services.waiting import BUSY


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    (tmp_path / "orders.py").write_text("def process(message): pass\n")
    return CommandLine(tmp_path)


def test_applications_are_added_shown_explained_and_removed(cli: CommandLine) -> None:
    assert "postroom app add" in cli.run("app", "ls").stderr
    options = ("--max-processes", "2", "--idle-timeout", "90s", "--on-poison", "reject")
    more = ("--recycle-memory", "200MB", "--recycle-after", "2h", "--recycle-messages", "500")
    added = cli.json("app", "add", "/Shop/orders", "--handler", "orders:process", *options, *more)
    assert (added["path"], added["handler"]) == ("/Shop/orders", "orders:process")
    assert (added["idle_timeout"], added["on_poison"]) == ("90s", "reject")
    assert (added["recycle_memory"], added["recycle_after"]) == (200_000_000, "2h")
    times = ("--retry-cycle-delay", "5m", "--handler-timeout", "10m")
    cli.ok("app", "add", "/shop", "--command", "cat -", *times)

    [shop, orders] = cli.json("app", "ls")["items"]
    assert (shop["command"], shop["state"], shop["origin"]) == (
        ["cat", "-"],
        "no host",
        "command line",
    )
    assert (orders["max_processes"], orders["hosts"]) == (2, [])
    assert (shop["handler_timeout"], orders["handler_timeout"]) == ("10m", None)
    assert "orders:process" in cli.ok("app", "ls")

    found = cli.json("app", "explain", "shop/orders/7")
    assert found["app"] == "/Shop/orders"
    assert [each["path"] for each in found["candidates"]] == ["/Shop/orders", "/shop"]
    assert "matches, but /Shop/orders is longer" in cli.ok("app", "explain", "shop/orders/7")
    removed = cli.json("app", "remove", "/shop/orders")
    assert removed == {"path": "/shop/orders", "removed": True}
    assert cli.json("app", "explain", "shop/orders/7")["app"] == "/shop"
    printed = cli.ok("app", "explain", "lonely").splitlines()[0]
    assert printed == "lonely → no application: no path matches this queue"


def test_mistakes_with_applications_are_one_line(cli: CommandLine) -> None:
    handler = ("--handler", "orders:process")
    cli.ok("app", "add", "/shop", *handler)
    line = cli.fails("app", "add", "/SHOP", *handler, "--concurrency", "2")
    assert line.startswith("the application '/shop' already exists")
    line = cli.fails("app", "add", "/x", *handler, "--min-processes", "5")
    assert line == "max_processes: must be at least min_processes (5), not 4"
    line = cli.fails("app", "add", "/x", "--handler", "absent:process")
    assert line.endswith("ModuleNotFoundError: No module named 'absent'")
    assert "there is no program './absent'" in cli.fails(
        "app", "add", "/x", "--command", "./absent"
    )
    assert cli.fails("app", "remove", "/x") == "there is no application '/x'"
    assert "must be a duration such as 500ms" in cli.misused(
        "app", "add", "/x", "--idle-timeout", "soon"
    )
    # A machine that has not got the program may register it for those that have.
    cli.ok("app", "add", "/x", "--command", "./absent", "--unchecked")


def test_applications_are_followed_until_ctrl_c(cli: CommandLine) -> None:
    cli.ok("app", "add", "/shop", "--handler", "orders:process")
    with default_signals():
        watching = cli.start("app", "ls", "--watch", "--json")
    try:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert [app["path"] for app in json.loads(watching.stdout.readline())["items"]] == ["/shop"]
        cli.ok("app", "remove", "/shop")
        assert json.loads(watching.stdout.readline())["items"] == []
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30 * BUSY) == 0
        assert watching.stderr.read() == b""
    finally:
        watching.kill()
        watching.communicate()


def test_a_message_is_put_peeked_at_and_deleted(cli: CommandLine) -> None:
    put = cli.json("queue", "put", "shop/orders", "7 apples", "--property", "colour=red=green")
    cli.ok("queue", "put", "shop/orders", "later", "--delay", "1h", "--ttl", "2h")
    [message] = cli.json("queue", "peek", "shop/orders")["items"]
    assert (message["id"], message["body"]) == (put["id"], "7 apples")
    assert message["properties"] == {"colour": "red=green"}
    [queue] = cli.json("queue", "ls")["items"]
    assert (queue["name"], queue["length"]) == ("shop/orders", 2)
    assert (queue["app"], queue["state"]) == (None, "no application")
    assert "no application" in cli.ok("queue", "ls")

    gone = cli.json("queue", "delete", "shop/orders", put["id"], "--yes")
    assert gone == {"queue": "shop/orders", "id": put["id"], "deleted": True}
    line = cli.fails("queue", "delete", "shop/orders", put["id"], "--yes")
    assert line.startswith("there is no message in shop/orders (or it is in progress)")
    assert "NAME=VALUE" in cli.misused("queue", "put", "q", "x", "--property", "colour")
    assert "is set by Postroom" in cli.fails("queue", "put", "q", "x", "--property", "cycle=1")


def test_poison_messages_are_redriven(cli: CommandLine) -> None:
    ids = [cli.json("queue", "put", "shop;poison", f"order {n}")["id"] for n in range(2)]
    one = cli.json("queue", "redrive", "shop", "--id", ids[1])
    assert one == {"queue": "shop", "redriven": 1}
    assert [each["body"] for each in cli.json("queue", "peek", "shop")["items"]] == ["order 1"]
    assert "redriven to shop" in cli.ok("queue", "history", ids[1])
    assert cli.ok("queue", "redrive", "shop;poison", "--rate", "100") == "1 message moved back.\n"


def test_a_history_says_once_how_a_process_ended(cli: CommandLine) -> None:
    identity = cli.json("queue", "put", "shop", "an order")["id"]
    asyncio.run(_died_of_it(cli.folder / "postroom-data" / "postroom.db"))
    assert cli.ok("queue", "history", identity).count("exit status 9") == 1
    assert cli.json("queue", "history", identity)["items"][0]["exit_status"] == 9


def test_messages_are_brought_back_from_the_senders_own_queue(cli: CommandLine) -> None:
    cli.ok("queue", "put", "shop", "an order", "--property", "dead_letter_queue=senders/own")
    cli.ok("queue", "put", "senders/own", "something else")
    asyncio.run(_died_of_it(cli.folder / "postroom-data" / "postroom.db", reject=True))
    again = ("queue", "redrive", "shop", "--from", "senders/own")
    assert cli.ok(*again) == "1 message moved back.\n"
    assert [each["body"] for each in cli.json("queue", "peek", "shop")["items"]] == ["an order"]
    assert cli.ok(*again) == "0 messages moved back.\n"


async def _died_of_it(file: Path, *, reject: bool = False) -> None:
    async with await open_store(f"sqlite:///{file}") as store:
        [message] = await store.queue("shop").receive(lease=60)
        failure = AttemptFailure("the process ended: exit status 9", exit_status=9)
        app = App(path="/shop", handler="orders:process", origin="test")
        if reject:
            changes = {
                "on_poison": OnPoison.REJECT,
                "receive_retry_count": 0,
                "max_retry_cycles": 0,
            }
            app = msgspec.structs.replace(app, **changes)
        await Services(store).queues.failed(message, app, failure)


def test_a_queue_is_stopped_and_resumed(cli: CommandLine) -> None:
    cli.ok("queue", "put", "shop", "an order")
    cli.ok("queue", "fault", "shop", "--reason", "stock-taking")
    [queue] = cli.json("queue", "ls")["items"]
    assert (queue["state"], queue["faulted"]) == ("faulted", "stock-taking")
    assert cli.ok("queue", "clear", "shop") == "Queue shop resumed.\n"
    assert cli.ok("queue", "clear", "shop") == "Queue shop was not stopped.\n"


def test_an_application_is_updated_paused_resumed_and_restarted(cli: CommandLine) -> None:
    cli.ok("app", "add", "/shop", "--handler", "orders:process", "--memory-limit", "300MB")
    options = ("--max-processes", "8", "--env", "SHOP_KEY=a=b", "--default", "memory-limit")
    changed = cli.json("app", "update", "/shop", *options)
    assert (changed["max_processes"], changed["memory_limit"]) == (8, None)
    assert changed["environment"] == ["SHOP_KEY"]
    assert "nothing to change" in cli.misused("app", "update", "/shop")
    line = cli.fails("app", "update", "/shop", "--handler", "nowhere:process")
    assert "'nowhere:process' cannot be imported" in line
    assert cli.fails("app", "update", "/shpo", "--max-processes", "2") == (
        "there is no application '/shpo'"
    )
    assert cli.ok("app", "pause", "/shop") == "Application /shop paused.\n"
    [shown] = cli.json("app", "ls")["items"]
    assert (shown["is_paused"], shown["state"]) == (True, "paused")
    assert cli.ok("app", "resume", "/shop") == "Application /shop resumed.\n"
    assert cli.ok("app", "restart", "/shop") == "Application /shop restarting.\n"
    [shown] = cli.json("app", "ls")["items"]
    assert (shown["is_paused"], shown["max_processes"]) == (False, 8)


def test_the_file_is_read_again_while_hosts_run(cli: CommandLine) -> None:
    file = cli.folder / "postroom.toml"
    file.write_text('[[apps]]\npath = "/shop"\nhandler = "orders:process"\n')
    assert cli.ok("app", "reload") == "1 application read from postroom.toml.\n"
    line = cli.fails("app", "update", "/shop", "--max-processes", "2")
    assert "change it there and run postroom app reload" in line
    with file.open("a") as open_file:
        open_file.write("max_processes = 2\nenvironment = { SHOP_KEY = 'x' }\n")
    cli.ok("app", "reload")
    [shown] = cli.json("app", "ls")["items"]
    assert (shown["max_processes"], shown["environment"]) == (2, ["SHOP_KEY"])
    with file.open("a") as open_file:
        open_file.write("colour = 1\n")
    assert cli.fails("app", "reload").startswith("postroom.toml, line 6: colour")


def test_rights_are_denied_and_given_back(cli: CommandLine) -> None:
    line = cli.fails("queue", "access", "deny", "app:/shop", "receive", "shop")
    assert line == "there is no application '/shop'"
    cli.ok("app", "add", "/shop", "--handler", "orders:process")
    cli.ok("queue", "access", "deny", "app:/shop", "receive", "shop")
    [rule] = cli.json("queue", "access", "ls")["items"]
    assert rule == {
        "principal": "app:/shop",
        "right": "receive",
        "queues": "/shop",
        "effect": "deny",
    }
    cli.ok("queue", "access", "allow", "app:/shop", "receive", "/shop")
    assert "allow" in cli.ok("queue", "access", "ls")
    cli.ok("queue", "access", "remove", "app:/shop", "receive", "/shop")
    line = cli.fails("queue", "access", "remove", "app:/shop", "receive", "/shop")
    assert line.startswith("there is no rule")
    assert cli.fails("queue", "access", "deny", "ann", "send", "/").startswith("principal: must be")
