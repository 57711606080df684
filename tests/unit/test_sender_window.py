"""How many pages a sender has in hand."""

from contextlib import ExitStack

import pytest

from postroom.domain.pages import PAGE_SIZE
from postroom.sender.window import Window


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Sending:
    """Pages that are sent one after the other by a server of a certain speed."""

    def __init__(self, fewest: int = 2, most: int = 32) -> None:
        self.clock = Clock()
        self.grown = 0
        self.window = Window(fewest, most, self._grows, self.clock)

    def _grows(self) -> None:
        self.grown += 1

    def send(self, pages: int, emails_a_second: float, emails: int = PAGE_SIZE) -> int:
        """So many pages that begin together; answers how many may be in hand then."""
        under_way = []
        for _ in range(pages):
            page = ExitStack()
            page.enter_context(self.window.sending(emails))
            under_way.append(page)
        for page in under_way:
            self.clock.now += emails / emails_a_second
            page.close()
        return self.window.pages


def test_it_begins_with_few_and_grows_with_the_first_page() -> None:
    sending = Sending()
    assert sending.window.pages == 2
    assert sending.send(1, emails_a_second=30_000) == 32
    assert sending.grown == 1


@pytest.mark.parametrize(
    ("speed", "pages"), [(1, 2), (50, 2), (130, 3), (490, 10), (1530, 31), (50_000, 32)]
)
def test_it_is_what_is_sent_in_two_seconds(speed: float, pages: int) -> None:
    sending = Sending()
    for _ in range(5):
        sending.send(sending.window.pages, speed)
    assert sending.window.pages == pages


def test_a_server_that_becomes_slow_has_less_and_then_more_again() -> None:
    sending = Sending()
    sending.send(2, 10_000)
    assert sending.send(32, 20) == 2
    assert sending.send(2, 10_000) == 32
    assert sending.grown == 2


def test_pages_with_few_emails_left_are_not_taken_for_whole_ones() -> None:
    sending = Sending()
    assert sending.send(4, emails_a_second=50, emails=2) == 2


def test_there_are_never_more_than_allowed() -> None:
    assert Sending(fewest=5, most=3).window.pages == 3
    assert Sending(fewest=3, most=3).send(1, 50_000) == 3


def test_calls_that_are_answered_together_become_more() -> None:
    """As those of an HTTP API: each takes a second, however many there are."""
    sending = Sending()
    for _ in range(5):
        calls = ExitStack()
        for _ in range(sending.window.pages):
            calls.enter_context(sending.window.sending(PAGE_SIZE))
        sending.clock.now += 1.0
        calls.close()
    assert sending.window.pages == 32


def test_what_was_long_ago_counts_less_and_less() -> None:
    """Also if there is no rest between the quick pages and the slow ones."""
    sending = Sending()
    under_way = ExitStack()
    under_way.enter_context(sending.window.sending(PAGE_SIZE))
    for speed, pages, expected in ((5000, 200, 32), (50, 10, 2), (5000, 400, 32)):
        for _ in range(pages):
            following = ExitStack()
            following.enter_context(sending.window.sending(PAGE_SIZE))
            sending.clock.now += PAGE_SIZE / speed
            under_way.close()
            under_way = following
        assert sending.window.pages == expected, speed
