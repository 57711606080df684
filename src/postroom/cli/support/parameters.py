"""Values of options: `30s`, and NAME=VALUE."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click

from postroom.domain.durations import parse_duration


class Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as exc:
            self.fail(f"{exc}, not {value!r}", param, ctx)


DURATION = Duration()


def read_pairs(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Return the values of a repeated option by name. `click.BadParameter`."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"must be NAME=VALUE, not {pair!r}", param_hint=option)
        found[name] = value
    return found
