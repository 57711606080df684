"""A message and the outcomes of its emails, once or until it is finished."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

import click

from postroom.cli.support import output
from postroom.services.audience.results.message_results import NO_RESULTS, MessageResults
from postroom.services.messages.sending.progress import SendingState, SpeedMeter
from postroom.services.resources.messages import describe_message

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.text import Text

    from postroom.domain.messages.emails import Counts
    from postroom.domain.messages.messages import Message
    from postroom.domain.messages.waves.waves import Waves
    from postroom.services.messages.sending.holds import Hold
    from postroom.wiring import Services

_LOOK_SECONDS = 0.5
_PLAIN_SECONDS = 2.0
_WINDOW_SECONDS = 10.0
_PARTS = ("accepted", "refused", "suppressed", "in_doubt", "pending")


class MessageView(NamedTuple):
    """A message with its counts, holds and results."""

    message: Message
    state: SendingState
    results: MessageResults = NO_RESULTS


async def read_state(services: Services, ref: str) -> MessageView:
    """Return a message with its counts, holds and results."""
    message = await services.messages.get(ref)
    state = await services.message_holds.sending_state(message)
    return MessageView(message, state, await services.results.of_message(message))


def show_message(view: MessageView, as_json: bool) -> None:
    if as_json:
        output.print_json(describe_message(*view))
    else:
        output.console().print(_view(view))


async def watch_message(services: Services, ref: str, as_json: bool) -> None:
    """Follow a message until it is finished: live on a terminal, otherwise a line per change."""
    if as_json:
        await _watch_lines(services, ref, _json_line)
    elif sys.stdout.isatty():
        await _watch_live(services, ref)
    else:
        await _watch_lines(services, ref, _plain_line)


async def _watch_live(services: Services, ref: str) -> None:
    from rich.live import Live

    speed = SpeedMeter(_WINDOW_SECONDS)
    with Live(console=output.console(), refresh_per_second=4) as live:
        while True:
            began = time.monotonic()
            view = await read_state(services, ref)
            speed.note(view.message, view.state.counts.done, time.monotonic())
            is_done = _is_done(view.message)
            live.update(_view(view, None if is_done else speed))
            if is_done:
                return
            await asyncio.sleep(_pause(began, _LOOK_SECONDS))


async def _watch_lines(services: Services, ref: str, line: LineMaker) -> None:
    speed = SpeedMeter(_WINDOW_SECONDS)
    last = ""
    while True:
        began = time.monotonic()
        view = await read_state(services, ref)
        message, state, results = view
        speed.note(message, state.counts.done, time.monotonic())
        seen = f"{message.status} {message.reason} {state.counts} {state.holds} {results}"
        if seen != last:
            click.echo(line(view, speed))
            last = seen
        if _is_done(message):
            return
        await asyncio.sleep(_pause(began, _PLAIN_SECONDS))


def _is_done(message: Message) -> bool:
    """Return whether nothing more will change."""
    from postroom.domain.messages.messages import FINAL

    return message.status in FINAL


def _pause(began: float, least: float) -> float:
    """Return the seconds until the next read: reading many pages must not keep the store busy."""
    return max(least, 4 * (time.monotonic() - began))


# -- for people -----------------------------------------------------------------------------------


def _view(view: MessageView, speed: SpeedMeter | None = None) -> Group:
    from rich.console import Group

    message, state, results = view
    counts = state.counts
    lines: list[RenderableType] = [
        output.details(
            {
                "message": message.ref,
                "status": output.state(message.status.value),
                "reason": output.plain(message.reason) if message.reason else None,
                "list": ", ".join(message.lists),
                "audience": None if message.audience.is_everybody else str(message.audience),
                "subject": output.plain(message.subject),
                "bodies": " and ".join(_bodies(message)),
                "scheduled": output.when(message.scheduled_at),
                "queued": output.when(message.queued_at),
                "completed": output.when(message.completed_at),
                "waves": _waves(message.waves),
            }
        )
    ]
    if counts.planned:
        # While pages are still being planned, the time left is unknown.
        is_complete = message.status.value != "Queuing"
        lines += ["", _bar(counts, speed, show_time_left=is_complete), "", _sum(counts)]
    if counts.accepted:
        lines += ["", output.details(_result_lines(results))]
    lines += [line for hold in state.holds for line in ("", _hold(hold))]
    if waits := _waits(state):
        lines += ["", waits]
    return Group(*lines)


def _waves(waves: Waves | None) -> str | None:
    if waves is None:
        return None
    if waves.times:
        following = "" if waves.next_at is None else f", the next at {output.when(waves.next_at)}"
        return f"{waves.current + 1} of {waves.count} by local time{following}"
    if waves.is_last:
        return f"all recipients, after the first {waves.share}"
    if waves.next_at is None:
        return f"the first {waves.share} of the recipients"
    return f"the first {waves.share}; the others at {output.when(waves.next_at)} if all is well"


def _result_lines(results: MessageResults) -> dict[str, str]:
    total = results.delivery.total
    return {
        "bounced": f"{total.bounced:,}",
        "marked as spam": f"{total.complained:,}",
        "unsubscribed": f"{results.unsubscribed:,}",
        "opened": _measured(results.opened),
        "clicked": _measured(results.clicked),
    }


def _measured(count: int | None) -> str:
    return "not measured" if count is None else f"{count:,}"


def _bodies(message: Message) -> list[str]:
    return [
        name for name, there in (("HTML", message.has_html), ("text", message.has_text)) if there
    ]


def _bar(counts: Counts, speed: SpeedMeter | None, *, show_time_left: bool) -> Text:
    """Return one bar of all outcomes, in their colours and proportions."""
    from rich.text import Text

    width = max(10, min(output.columns(), 100) - 40)
    bar = Text()
    filled = 0
    so_far = 0
    for part in _PARTS[:-1]:
        so_far += getattr(counts, part)
        until = width * so_far // counts.planned
        bar.append("━" * (until - filled), output.STYLES[part])
        filled = until
    bar.append("━" * (width - filled), "bright_black")
    bar.append(f" {100 * counts.done // counts.planned:3}%")
    if speed is not None and speed.per_second:
        bar.append(f"  {speed.per_second:,.0f}/s", "bold")
        if show_time_left and counts.pending:
            left = timedelta(seconds=counts.pending / speed.per_second)
            bar.append(f"  {output.span(left)} left", "dim")
    return bar


def _sum(counts: Counts) -> RenderableType:
    """Return planned = accepted + refused + suppressed + in doubt + pending, aligned."""
    from rich.table import Table

    made = Table.grid(padding=(0, 1))
    made.add_column(justify="right")
    for _ in range(2):
        made.add_column(justify="right")
        made.add_column()
    width = len(f"{counts.planned:,}")
    made.add_row("", f"{counts.planned:>{width},}", "planned")
    for sign, part in zip(("=", "+", "+", "+", "+"), _PARTS, strict=True):
        count = getattr(counts, part)
        made.add_row(sign, f"{count:>{width},}", output.state(part) if count else _dim(part))
    if counts.deferred:
        made.add_row("", "", "", f"{counts.deferred:,}", "of them deferred")
    if counts.possible_duplicates:
        made.add_row("", "", "", f"{counts.possible_duplicates:,}", "possibly sent twice")
    return made


def _hold(hold: Hold) -> RenderableType:
    """Return what a hold stops, why, since when, and when it is probed next."""
    from rich.console import Group
    from rich.text import Text

    from postroom.services.messages.sending.hold_rows import describe

    facts = {
        "since": output.when(hold.since),
        "next attempt": output.when(hold.next_probe),
        "reply": output.plain(hold.reply) if hold.reply else None,
    }
    return Group(Text(describe(hold), "yellow"), output.details(facts))


def _waits(state: SendingState) -> str:
    waiting = state.waiting
    if waiting.next_try_at is None:
        return ""
    because = f" Most frequent reply: {output.plain(waiting.reply)}" if waiting.reply else ""
    return f"Next attempt for deferred emails: {output.when(waiting.next_try_at)}.{because}"


def _dim(part: str) -> Text:
    from rich.text import Text

    return Text(part.replace("_", " "), "dim")


# -- for pipes ------------------------------------------------------------------------------------


class LineMaker(Protocol):
    """A function that describes a change in one line."""

    def __call__(self, view: MessageView, speed: SpeedMeter) -> str: ...


def _plain_line(view: MessageView, speed: SpeedMeter) -> str:
    from postroom.services.messages.sending.hold_rows import describe

    message, state, _ = view
    counts = state.counts
    held = "".join(f" {describe(hold)}" for hold in state.holds)
    parts = " + ".join(f"{getattr(counts, part):,} {part.replace('_', ' ')}" for part in _PARTS)
    reason = f" ({message.reason})" if message.reason else ""
    rate = f"{speed.per_second or 0:,.0f}/s"
    return f"{message.status}{reason}: {counts.planned:,} = {parts}, {rate}{held}"


def _json_line(view: MessageView, speed: SpeedMeter) -> str:
    shown = output.builtins(describe_message(*view))
    return output.json_line({**shown, "per_second": round(speed.per_second or 0, 1)})
