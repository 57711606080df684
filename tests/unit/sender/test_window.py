"""How many pages a sender takes."""

import pytest

from postroom.domain.messages.pages import PAGE_SIZE
from postroom.sender.pages.window import Window

TICK = 0.01


class Server:
    """Sends the emails of pages in hand, so many a second; some it never answers."""

    def __init__(self, concurrency: int = 16, most: int = 32) -> None:
        self.now = 1000.0
        self.window = Window(concurrency, most, lambda: self.now)
        self.pages: list[int] = []  # emails that are left of each
        self.sent = 0
        self.unanswered = 0
        self._budget = 0.0

    def run(self, seconds: float, speed: float, page: int = PAGE_SIZE) -> None:
        for _ in range(round(seconds / TICK)):
            room = self.window.room(len(self.pages), sum(self.pages), self.sent)
            self.pages += [page] * room
            self.now += TICK
            self._budget += speed * TICK
            self._send()

    def _send(self) -> None:
        for number, left in enumerate(self.pages):
            answered = min(left - (number < self.unanswered), int(self._budget))
            self.pages[number] -= answered
            self.sent += answered
            self._budget -= answered
        self.pages = [left for left in self.pages if left]
        self._budget = min(self._budget, 1.0) if not self.pages else self._budget

    @property
    def unsent(self) -> int:
        return sum(self.pages)


def test_it_begins_with_few() -> None:
    assert Window(16, 32).room(0, 0, 0) == 2
    assert Window(1000, 32).room(0, 0, 0) == 11
    assert Window(800, 3).room(0, 0, 0) == 3


@pytest.mark.parametrize("speed", [5, 50, 300, 1000, 30_000])
def test_it_has_work_for_two_seconds_and_never_none(speed: float) -> None:
    server = Server()
    server.run(10, speed)
    assert server.unsent <= max(2 * PAGE_SIZE, 2 * speed + PAGE_SIZE)
    done = server.sent
    server.run(5, speed)
    assert server.sent - done >= 4.9 * min(speed, 32 * PAGE_SIZE / TICK)


def test_a_server_that_becomes_slow_is_given_less_and_then_more_again() -> None:
    server = Server()
    server.run(10, 5000)
    assert server.unsent > 10 * PAGE_SIZE
    server.run(80, 50)
    assert server.unsent <= 3 * PAGE_SIZE
    server.run(10, 5000)
    assert server.unsent > 10 * PAGE_SIZE


def test_pages_that_wait_for_a_last_reply_do_not_delay_others() -> None:
    server = Server()
    server.unanswered = 10
    server.run(10, 300)
    assert server.sent >= 2900


def test_pages_with_one_email_left_are_taken_many_at_a_time() -> None:
    server = Server()
    server.run(5, 200, page=1)
    assert server.sent >= 990


def test_idle_time_does_not_change_the_measured_speed() -> None:
    server = Server()
    server.run(5, 1000)
    server.window.rest()
    server.now += 3600
    assert server.window.room(0, 0, server.sent) == 2
    server.run(1, 1000)
    assert server.unsent > 10 * PAGE_SIZE


def test_there_are_never_more_than_allowed() -> None:
    server = Server(most=3)
    server.run(2, 50_000)
    assert server.window.room(3, 300, server.sent) == 0
    assert server.window.room(1, 0, server.sent) <= 2
