"""Access links by email: invitations and password resets.

They are sent only if a mail server is configured: in the outbox, other team members could use them.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Final

from postroom import clock
from postroom.domain.audience.addresses import parse_address
from postroom.errors import PostroomError
from postroom.notices import NoticeSender, send_notice
from postroom.services.accounts.access_links import INVITATION_AGE, RESET_AGE, LinkKind
from postroom.settings import Settings
from postroom.transport.contract import ResultKind
from postroom.transport.registry import sends_mail
from postroom.wiring import Services, opened_transport

LASTING: Final = {LinkKind.INVITATION: INVITATION_AGE, LinkKind.RESET: RESET_AGE}
_SUBJECTS: Final = {
    LinkKind.INVITATION: "Your invitation to Postroom",
    LinkKind.RESET: "Reset your Postroom password",
}
_TEXTS: Final = {
    LinkKind.INVITATION: """\
You have been invited to the Postroom at {site}.

To accept, choose a password:

{url}

The link works once and expires in {lasting}. If you did not expect this invitation, ignore it.
""",
    LinkKind.RESET: """\
Someone, most likely you, asked for a new password for your Postroom account at {site}.

Set a new password:

{url}

The link works once and expires in {lasting}. If it was not you, ignore this email: your password
has not been changed.
""",
}


class LinkNotSent(PostroomError):
    """The mail server did not accept the email; the text is its reply."""


def sends_links(settings: Settings) -> bool:
    """Return whether links can be sent by email."""
    return sends_mail(settings.transport.url)


async def send_link(
    services: Services, settings: Settings, kind: LinkKind, email: str, url: str
) -> None:
    """Send an access link to the person that it is for. `PostroomError` says why it failed."""
    sender = NoticeSender(services.lists, settings.alerts.from_address)
    lasting = shown_age(LASTING[kind])
    async with opened_transport(settings, services) as transport:
        result = await send_notice(
            transport,
            from_address=await sender.address(),
            to=parse_address(email),
            subject=_SUBJECTS[kind],
            text=_TEXTS[kind].format(site=settings.web.base_url, url=url, lasting=lasting),
            date=clock.now(),
            key=secrets.token_hex(8),  # reveals nothing about the link
        )
    if result.kind is not ResultKind.ACCEPTED:
        raise LinkNotSent(f"{result.kind}: {result.reply}")


def shown_age(age: timedelta) -> str:
    return f"{age.days} days" if age.days > 1 else f"{age // timedelta(hours=1)} hours"
