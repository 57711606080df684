"""Welcome emails: work items of the queue `mail/confirm` for those who are about to confirm."""

from __future__ import annotations

from typing import Final

from postroom.domain.audience.lists.lists import MailingList, SubscriberGuid
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.storage import Store

WELCOME: Final = "welcome"
"""The property of a work item that welcomes someone instead of asking them."""


class WelcomeService:
    def __init__(self, store: Store, subscriptions: SubscriptionService) -> None:
        self._queue = store.queue(CONFIRM_QUEUE)
        self._subscriptions = subscriptions

    async def prepare(
        self, mailing_list: MailingList, guid: SubscriberGuid, language: str = ""
    ) -> None:
        """Queue the welcome email for the owner of a confirmation link, if the list sends one and
        they have not confirmed before. Call it before they are verified: after an interruption, the
        link is used again. The item waits until they are verified.
        """
        if not mailing_list.welcome_email:
            return
        subscriber = await self._subscriptions.by_guid(mailing_list.name, guid)
        if subscriber is None or subscriber.verified:
            return
        properties = {WELCOME: "yes"} | ({"language": language} if language else {})
        body = f"{subscriber.guid},{subscriber.list_name}"
        await self._queue.put(body, properties=properties)
