"""Options that are written NAME=VALUE and may be repeated."""

from __future__ import annotations

from collections.abc import Sequence

import click


def read_pairs(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Return the values by name. `click.BadParameter`."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{pair!r} is not written NAME=VALUE", param_hint=option)
        found[name] = value
    return found
