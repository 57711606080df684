"""The way out, tried as far as possible without sending."""

from __future__ import annotations

from postroom.checks.findings import Finding, State, one_line
from postroom.errors import PostroomError
from postroom.settings import Settings
from postroom.wiring import opened_transport


async def check_transport(settings: Settings) -> list[Finding]:
    try:
        async with opened_transport(settings) as transport:
            found = await transport.check()
    except PostroomError as exc:
        origin = settings.found["transport"].origin
        advice = f"Look at the setting transport (from {origin})."
        return [Finding("transport", State.ERROR, one_line(exc), advice)]
    if not sends(settings):
        advice = "To send mail, set transport to smtp://… or sendgrid://"
        return [Finding("transport", State.WARNING, found, advice)]
    return [Finding("transport", State.OK, found)]


def sends(settings: Settings) -> bool:
    """Whether mails leave this machine at all."""
    return not settings.text("transport").startswith("outbox:")
