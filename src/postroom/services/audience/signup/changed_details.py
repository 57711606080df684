"""Someone who has confirmed signs up again with other details: they count once the owner of the
address has confirmed them.

The values wait on the subscriber's row (`PendingAttributes`), as those of someone who has not
confirmed yet do. The link in the email has a digest of them, so that it never confirms the values
of a later sign-up. They are replaced only if an email about them is sent.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from postroom.domain.audience.consent import BY_LINK, ConsentAction, ConsentSource
from postroom.domain.audience.fields import check_size
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid
from postroom.domain.audience.renamed_fields import without
from postroom.domain.errors import Invalid
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.signup.signup_limits import Allowance, SignupLimits
from postroom.services.audience.subscriber_rows import SubscriberRows
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import Store

CHANGES: Final = "changes"
"""The property of a work item that asks someone to confirm changes: the digest of the values."""
_DIGITS: Final = 32


def changes_digest(subscriber: Subscriber) -> str:
    """Return a digest of the values that wait for a confirmation; "" if there are none."""
    if not subscriber.pending_attributes:
        return ""
    values = msgspec.json.encode(subscriber.pending_attributes, order="deterministic")
    return hashlib.sha256(subscriber.guid.encode() + values).hexdigest()[:_DIGITS]


def awaits(subscriber: Subscriber, digest: str) -> bool:
    """Return whether these changes wait for the confirmation of a subscriber."""
    known = changes_digest(subscriber)
    is_right = hmac.compare_digest(known.encode(), digest.encode(errors="replace"))
    return subscriber.verified and bool(known) and is_right


class ChangedDetails:
    def __init__(
        self, store: Store, rows: SubscriberRows, fields: FieldService, limits: SignupLimits
    ) -> None:
        self._rows = rows
        self._fields = fields
        self._limits = limits
        self._confirmations = store.queue(CONFIRM_QUEUE)

    async def ask(
        self,
        known: Subscriber,
        given: Mapping[str, Any],
        allowance: Allowance,
        language: str,
        source: ConsentSource,
    ) -> None:
        """Ask a subscriber to confirm values that differ from theirs, unless they are blocked or
        have been asked too often recently.

        It is counted before it is written: after a crash in between, they have to sign up again.
        """
        if known.blocked or not await self._differ(known, given):
            return
        if not await self._limits.take(allowance):
            return

        async def attempt() -> Subscriber | None:
            current = await self._rows.find(known.list_name, known.address)
            if current is None or current.guid != known.guid or not current.verified:
                return None
            new = msgspec.structs.replace(current, pending_attributes=given)
            act = ConsentAction.SIGNED_UP
            return await self._rows.save(current, new, current.etag, source, act)

        asked = await retry_on_conflict(attempt, "subscriber", known.address)
        if asked is not None:
            properties = {"language": language} if language else {}
            await self._confirmations.put(
                f"{asked.guid},{asked.list_name}",
                properties={**properties, CHANGES: changes_digest(asked)},
            )

    async def confirm(
        self,
        list_name: ListName,
        guid: SubscriberGuid,
        digest: str,
        source: ConsentSource = BY_LINK,
    ) -> Subscriber | None:
        """Give a subscriber the values that they confirm; None if these do not wait. `Invalid` if
        they no longer fit."""

        async def attempt() -> Subscriber | None:
            subscriber, head = await self._rows.owner(list_name, guid)
            if subscriber is None or not awaits(subscriber, digest):
                return None
            attributes = await self._after(subscriber, subscriber.pending_attributes)
            new = msgspec.structs.replace(subscriber, attributes=attributes, pending_attributes={})
            saved = await self._rows.save(subscriber, new, subscriber.etag, source, head=head)
            await self._limits.forget(saved.address)
            return saved

        return await retry_on_conflict(attempt, "subscriber", guid)

    async def _differ(self, known: Subscriber, given: Mapping[str, Any]) -> bool:
        try:
            return await self._after(known, given) != dict(known.attributes)
        except Invalid:  # no room left by the fields that are not public
            return False

    async def _after(self, known: Subscriber, given: Mapping[str, Any]) -> dict[str, Any]:
        fields = await self._fields.recent(known.list_name)
        return check_size({**without(known.attributes, given, fields), **given})
