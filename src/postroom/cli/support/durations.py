"""`30s`, `20m`, `2h` as the value of an option."""

from __future__ import annotations

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
