"""How pages write times and durations.

Every moment is a `<time>` element with the exact time as its title: `ui.moment` in
`templates/macros.html` writes it relative to now, `ui.clock` as time of day, `ui.printed` with
its date. What is here is the text for browsers without scripts, in UTC. `static/times.js` has the
same rules, shows the visitor's time zone, and keeps relative times up to date.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

_UNITS = (("day", 86400), ("h", 3600), ("min", 60), ("s", 1))
RELATIVE = timedelta(days=30)
"""Moments further away are written as a date."""


def exact(moment: datetime | None) -> str:
    """Return for example "9 Nov 2026, 21:04 UTC"."""
    return "" if moment is None else f"{_date(moment)}, {moment.astimezone(UTC):%H:%M} UTC"


def is_near(moment: datetime, now: datetime | None = None) -> bool:
    """Return whether `ago` says how far away a moment is, and not its date."""
    return abs((now or datetime.now(UTC)) - moment) < RELATIVE


def isotime(moment: datetime) -> str:
    """Format a time for the `datetime` attribute."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """Return for example "5 min ago", "in 2 days" or "9 Nov 2026"."""
    if moment is None:
        return ""
    now = now or datetime.now(UTC)
    if not is_near(moment, now):
        return _date(moment)
    passed = now - moment
    seconds = int(abs(passed.total_seconds()))
    for unit, length in _UNITS:
        if seconds >= length:
            count = seconds // length
            shown = f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}"
            return f"{shown} ago" if passed > timedelta() else f"in {shown}"
    return "just now"


def upcoming(moment: datetime, now: datetime | None = None) -> str:
    """Return for example "in 2 h", or "now" if the moment has come."""
    now = now or datetime.now(UTC)
    return ago(moment, now) if moment - now >= timedelta(seconds=1) else "now"


def lasting(seconds: float) -> str:
    """Return a duration in its largest unit, for example "5 min"."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def day(moment: datetime) -> str:
    """Return for example "9 Nov"."""
    at = moment.astimezone(UTC)
    return f"{at.day} {at:%b}"


def on_day(of: date) -> str:
    """Return for example "9 Nov 2026"."""
    return f"{of.day} {of:%b %Y}"


def _date(moment: datetime) -> str:
    return on_day(moment.astimezone(UTC).date())


FILTERS = {
    "exact": exact,
    "is_near": is_near,
    "isotime": isotime,
    "ago": ago,
    "upcoming": upcoming,
    "lasting": lasting,
    "day": day,
    "on_day": on_day,
}
