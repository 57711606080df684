"""What a new user should do first, and which steps are done."""

from __future__ import annotations

import msgspec

from postroom.domain.audience.lists.lists import MailingList
from postroom.services.accounts.users import Role
from postroom.settings import STORED
from postroom.web.requests.visit import Visit

_LISTS_LOOKED_AT = 20
_SUBSCRIBERS_LOOKED_AT = 20


class Step(msgspec.Struct, frozen=True):
    """One step: a link and a sentence. Only an administrator can take a step without a link."""

    text: str
    url: str
    hint: str
    is_done: bool


async def find_first_steps(visit: Visit) -> list[Step]:
    """Return the first steps, looking at a limited number of lists; none if all are done, or for
    those who cannot take them.

    The mail server is no longer a step once there is a message: some people only use the outbox.
    """
    if not visit.may(Role.EDITOR):
        return []
    lists = (await visit.lists.slice(limit=_LISTS_LOOKED_AT)).lists
    has_message = bool((await visit.messages.all(limit=1)).messages)
    begun, has_verified = await _with_subscribers(visit, lists)
    has_subscriber = begun is not None or await _any_subscribers(visit)
    if lists and has_subscriber and has_message:
        return []
    # Prefer a list that anyone can sign up for.
    shown = begun or next((each for each in lists if each.public), lists[0] if lists else None)
    return [
        _create_list(shown),
        _mail_server(visit),
        _subscribers(visit, shown, has_subscriber, has_verified or has_message),
        _message(visit, has_message),
    ]


def _create_list(shown: MailingList | None) -> Step:
    if shown is None:
        hint = "Choose a name, a description and the sender’s address."
        return Step("Create a list", "/lists/new", hint, is_done=False)
    return Step("Create a list", f"/lists/{shown.name}", f"Done: {shown.name}.", is_done=True)


def _mail_server(visit: Visit) -> Step:
    text, url = "Set up your mail server", "/settings/mail-server"
    may = visit.may(Role.ADMINISTRATOR)
    if visit.context.keeps_mail:
        hint = "Until then, emails are kept in the Outbox: good for trying things out."
        who = "" if may else " An administrator can do this."
        return Step(text, url if may else "", f"{hint}{who}", is_done=False)
    found = visit.context.settings.found["transport"]
    if found.origin == STORED and visit.context.live.stored.tested_at is None and may:
        hint = "It is set up. Send yourself a test email to see that it works."
        return Step("Test your mail server", url, hint, is_done=False)
    return Step(text, url if may else "", "Done.", is_done=True)


def _subscribers(
    visit: Visit, shown: MailingList | None, has_subscriber: bool, is_confirmed: bool
) -> Step:
    text = "Add your first subscriber"
    if shown is None:
        return Step(text, "", "Import a file, or share its sign-up page.", is_done=False)
    add = f"/lists/{shown.name}/subscribers/add"
    if has_subscriber and (is_confirmed or not shown.public):
        return Step(text, add, "Done.", is_done=True)
    keeps = visit.context.keeps_mail
    if has_subscriber:
        how = (
            "Open the email in the Outbox and follow its link."
            if keeps
            else ("They follow the link in their email.")
        )
        url = "/outbox" if keeps else f"/lists/{shown.name}/subscribers"
        return Step(text, url, f"Someone has signed up and has to confirm. {how}", is_done=False)
    if not shown.public:
        return Step(text, add, "Sign-up is closed for this list, so add an address.", is_done=False)
    where = "appears in the Outbox" if keeps else "is sent to you"
    hint = f"Try the sign-up page yourself. The confirmation email {where}."
    return Step(text, f"/subscribe?list={shown.name}", hint, is_done=False)


def _message(visit: Visit, has_message: bool) -> Step:
    hint = "Done." if has_message else "Write it, send yourself a test, and choose the time."
    return Step("Send your first message", "/messages/new", hint, is_done=has_message)


async def _with_subscribers(
    visit: Visit, lists: list[MailingList]
) -> tuple[MailingList | None, bool]:
    """Return the first list with a subscriber, and whether one of its first subscribers is
    confirmed."""
    for each in lists:
        found = await visit.services.subscriptions.slice(each.name, limit=_SUBSCRIBERS_LOOKED_AT)
        if found.subscribers:
            return each, any(one.verified for one in found.subscribers)
    return None, False


async def _any_subscribers(visit: Visit) -> bool:
    """Return whether any list had a subscriber when lists were last counted."""
    return any(size.subscribers for size in await visit.services.growth.sizes())
