"""Bounces as JSON."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from postroom.services.resources import Resource


class ReceivedBounceResource(Resource, frozen=True):
    """An email that was stored and queued. It is read and recorded a moment later."""

    id: Annotated[str, Meta(description="The name of the blob in `bounces` until it is recorded.")]
