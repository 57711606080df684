"""HTML from templates: everything is escaped, and a name that is not there is an error."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2

from postroom.domain.sizes import show_size

FOLDER = Path(__file__).parent.parent
STATIC = FOLDER / "static"
# What the problem with a field may begin with, which lacks its subject then.
_VERBS = frozenset(
    {"is", "are", "has", "needs", "contains", "may", "must", "can", "cannot", "does", "begins",
     "ends", "names", "takes", "was", "belongs"}
)  # fmt: skip


def make_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        enable_async=False,
    )
    environment.filters.update(
        number=number, when=when, isotime=isotime, ago=ago, percent=percent, size=show_size
    )
    environment.filters.update(lasting=lasting, queue_url=queue_url, told=told)
    environment.globals["static"] = static
    return environment


@cache
def static(name: str) -> str:
    """The address of a static file; it changes with the content, so it may be kept for ever."""
    content = (STATIC / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:10]}"


def number(value: float) -> str:
    """1,234,567"""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def percent(part: float, whole: float) -> str:
    if not whole:
        return "0 %"
    share = 100 * part / whole
    return f"{share:.0f} %" if share in (0, 100) else f"{min(max(share, 0.1), 99.9):.1f} %"


def when(moment: datetime | None) -> str:
    """A moment for people who look at a server: UTC, to the minute."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def isotime(moment: datetime) -> str:
    """For the attribute `datetime`."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago, or in how long."""
    if moment is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if abs(seconds) >= length:
            count = int(abs(seconds) // length)
            return f"{count} {unit} ago" if seconds > 0 else f"in {count} {unit}"
    return "just now"


def lasting(seconds: float) -> str:
    """How long something takes, as somebody would say it."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def told(problem: str, about: str) -> str:
    """What is wrong with a field, as a sentence: with its subject, if it begins with a verb."""
    first = problem.partition(" ")[0]
    text = f"{about} {problem}" if first in _VERBS else problem[:1].upper() + problem[1:]
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def queue_url(name: str) -> str:
    """The page of a queue, whatever it is called."""
    return f"/queues/{quote(name)}"


def render(environment: jinja2.Environment, template: str, values: dict[str, Any]) -> str:
    return environment.get_template(template).render(values)
