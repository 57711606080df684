"""Lines of an imported file that cannot be used, as the API and the command line show them."""

from __future__ import annotations

from postroom.services.resources import Resource


class RejectedLineResource(Resource, frozen=True):
    """A line of a file that cannot be used."""

    line: int
    email: str
    reason: str
