"""Which application a queue activates."""

import pytest

from postroom.domain.queues.queue_names import (
    LONGEST,
    base_queue,
    bell_queue,
    dead_letter_queue,
    is_internal,
    is_subqueue,
    match,
    poison_queue,
    retry_queue,
    root_queue,
    winner,
)

HOST = "/msmqWebHost"
ORDERS = "/msmqWebHost/orderProcessing"
QUEUE = "msmqWebHost/orderProcessing/service.svc"


@pytest.mark.parametrize(
    ("queue", "paths", "expected"),
    [
        (QUEUE, [HOST, ORDERS], ORDERS),
        (QUEUE, [ORDERS, HOST, "/"], ORDERS),
        (QUEUE, [HOST], HOST),  # once the better one is removed
        (QUEUE, ["/msmqWeb"], None),
        (QUEUE, ["/msmqWeb", "/"], "/"),
        (QUEUE, ["/MSMQWEBHOST/ORDERprocessing"], "/MSMQWEBHOST/ORDERprocessing"),
        ("MSMQwebhost/ORDERPROCESSING", [HOST, ORDERS], ORDERS),
        ("msmqWebHost/orderProcessing", [ORDERS], ORDERS),  # named exactly like it
        ("msmqWebHost/orderProcessing2", [HOST, ORDERS], HOST),
        ("msmqWebHost", [HOST, ORDERS], HOST),
        ("/msmqWebHost/", [HOST], HOST),
        ("other", [HOST, ORDERS], None),
        ("other", [], None),
        ("straße/ä", ["/STRASSE"], "/STRASSE"),
        ("mail/schedule", ["/", "/mail"], None),
        ("host/bell/here-1", ["/", "/host", "/host/bell/here-1"], None),
        ("mail/scheduled", ["/mail"], "/mail"),
        ("x" * 300, ["/"], None),
    ],
)
def test_the_longest_path_of_whole_segments_wins(
    queue: str, paths: list[str], expected: str | None
) -> None:
    assert winner(queue, paths) == expected
    assert match(queue, paths).winner == expected


@pytest.mark.parametrize("suffix", [";retry", ";poison", ";dead-letter"])
def test_a_subqueue_is_not_taken_by_a_prefix(suffix: str) -> None:
    assert winner(f"shop/orders{suffix}", ["/", "/shop", "/shop/orders"]) is None


def test_only_the_path_of_a_poison_queue_takes_it() -> None:
    paths = ["/", "/shop/orders", "/Shop/Orders;poison"]
    assert winner("shop/orders;poison", paths) == "/Shop/Orders;poison"
    assert winner("shop/orders", paths) == "/shop/orders"
    assert winner("shop/orders;poison/more", ["/shop/orders;poison"]) is None
    assert winner("shop/orders;poison;retry", paths) is None
    assert winner("shop/orders;retry", ["/shop/orders;retry"]) is None


def test_an_explanation_names_every_candidate_with_its_reason() -> None:
    found = match(QUEUE, ["/", "/msmqWeb", ORDERS, HOST, "/other"])
    assert found.winner == ORDERS
    assert found.reason == "the longest path that the queue's name begins with"
    assert [(each.path, each.fits, each.reason) for each in found.candidates] == [
        (ORDERS, True, "the longest path that the queue's name begins with"),
        (HOST, True, f"matches, but {ORDERS} is longer"),
        ("/", True, f"matches, but {ORDERS} is longer"),
        ("/msmqWeb", False, "a path matches whole segments only"),
        ("/other", False, "the queue's name does not begin with this path"),
    ]
    assert match("msmqWebHost", [HOST]).reason == "the queue is named exactly like this path"
    assert match("lonely", ["/"]).reason == "takes queues that no other path matches"
    assert match("lonely", [HOST]).reason == "no path matches this queue"
    assert "reserved" in match("mail/schedule", ["/"]).reason
    assert "only a poison queue" in match("a;retry", ["/"]).reason
    assert "exactly its name" in match("a;poison", ["/a"]).candidates[0].reason
    assert "only the poison queue" in match("a", ["/a;poison"]).candidates[0].reason
    assert "longer than" in match("x" * 250, ["/"]).reason


def test_subqueues_have_suffixes() -> None:
    assert retry_queue("a/b") == "a/b;retry"
    assert poison_queue("a/b") == "a/b;poison"
    assert dead_letter_queue("a/b;poison") == "a/b;dead-letter"
    assert base_queue("a;poison;retry") == "a;poison"
    assert root_queue("a;poison;retry") == "a"
    assert base_queue("a") == root_queue("a") == "a"
    assert is_subqueue("a;poison")
    assert not is_subqueue("a;other")
    assert is_internal(bell_queue("x"))
    assert not is_internal("mail/send")
    longest = "x" * LONGEST
    assert len(retry_queue(poison_queue(longest))) <= 255
    assert len(dead_letter_queue(longest)) <= 255
