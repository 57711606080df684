"""Days and times in files: `2026-01-31`, `31.1.2026`, or with slashes in the order of the file."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Final

_TIME: Final = r"\.?(?:[T ,].*)?"
_DAY: Final = re.compile(rf"(\d{{4}})[-/.년] ?(\d{{1,2}})[-/.월] ?(\d{{1,2}})일?{_TIME}", re.ASCII)
_DAY_FIRST: Final = re.compile(rf"(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}}){_TIME}", re.ASCII)
_SHORT: Final = re.compile(rf"(\d{{1,2}})[/-](\d{{1,2}})[/-](\d{{4}}){_TIME}", re.ASCII)
_CLOCK: Final = re.compile(r"[T ,](\d{1,2})(:\d\d(?::\d\d)?)(?:[.Z+].*)?$", re.ASCII)


class DateOrder(StrEnum):
    """How dates such as 2/3/2026 are read; `YEAR_FIRST` refuses them."""

    YEAR_FIRST = "year_first"
    DAY_FIRST = "day_first"
    MONTH_FIRST = "month_first"


def as_iso(text: str, order: DateOrder) -> str:
    """Return a day as `2026-01-31`, if it can be read in this order; otherwise the text."""
    if (found := _DAY.fullmatch(text)) is not None:
        year, month, day = found.groups()
    elif (found := _DAY_FIRST.fullmatch(text)) is not None:
        day, month, year = found.groups()
    elif order is not DateOrder.YEAR_FIRST and (found := _SHORT.fullmatch(text)) is not None:
        first, second, year = found.groups()
        day, month = (first, second) if order is DateOrder.DAY_FIRST else (second, first)
    else:
        return text
    return f"{year}-{int(month):02}-{int(day):02}"


def as_iso_time(text: str, order: DateOrder) -> str:
    """Return a time as `2026-01-31 09:30`, or only its day, if it can be read in this order;
    otherwise the text."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        day = as_iso(text, order)
        clock = _CLOCK.search(text)
        return day if clock is None or day == text else f"{day} {clock[1]:>02}{clock[2]}"
    return text
