"""The option of commands about inactive subscribers."""

from __future__ import annotations

import click

from postroom.services.audience.targeting.inactive_subscribers import DAYS, PERIODS

inactive_days_option = click.option(
    "--days",
    type=click.Choice([str(each) for each in PERIODS]),
    default=str(DAYS),
    show_default=True,
    help="Days without an open or a click.",
)
