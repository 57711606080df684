"""Everything about one person as JSON: for the team, and for the person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from postroom.domain.audience.consent import ConsentAction, details_of
from postroom.domain.audience.lists.lists import Subscriber
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.services.audience.consent.consent_ledger import ConsentHistory
from postroom.services.audience.erasure import Erasure
from postroom.services.audience.personal_data import Trace
from postroom.services.audience.results.personal_hits import PersonResult
from postroom.services.audience.signup.foreign_ids import ForeignId
from postroom.services.messages.sending.outcomes import EmailRecord
from postroom.services.resources import Resource, Time, describe_time
from postroom.services.resources.audience import (
    AttributeValue,
    SubscriberResource,
    describe_subscriber,
)
from postroom.services.resources.deliverability.suppressions import (
    BounceResource,
    SuppressionResource,
    describe_bounce,
    describe_suppression,
)
from postroom.services.resources.messages import (
    MessageSummary,
    describe_email,
    describe_message_summary,
)


class ConsentEntryResource(Resource, frozen=True):
    """An entry of the consent ledger. What is null was not given, or has been erased. An entry with
    number 0 is shared by all that were imported together."""

    list: str
    number: int
    at: Time
    act: ConsentAction
    origin: str | None
    text_version: str | None
    text: str | None
    ip_digest: str | None
    changed: Sequence[str]
    details_hash: str | None
    previous: str | None
    hash: str


def describe_consent(history: ConsentHistory) -> Iterator[ConsentEntryResource]:
    if (imported := history.imported) is not None:
        yield ConsentEntryResource(
            list=history.list_name,
            number=0,
            at=describe_time(imported.at),
            act=ConsentAction.IMPORTED,
            origin=imported.origin,
            text_version=None,
            text=None,
            ip_digest=None,
            changed=[],
            details_hash=None,
            previous=None,
            hash=imported.hash,
        )
    for each in history.entries:
        details = details_of(each)
        yield ConsentEntryResource(
            list=history.list_name,
            number=each.number,
            at=describe_time(each.at),
            act=each.act,
            origin=details.origin or None,
            text_version=details.text_version or None,
            text=details.text or None,
            ip_digest=details.ip_digest or None,
            changed=details.changed,
            details_hash=each.details_hash or None,
            previous=each.previous or None,
            hash=each.hash,
        )


_RECORDED: Final = (
    "The first time. Null: it did not happen, or the subscriber did not agree to tracking."
)


class LeftListResource(Resource, frozen=True):
    """A list that an address has left."""

    list: str
    left_at: Time | None


class FormerAddressResource(Resource, frozen=True):
    """A change of address on a list. The emails to the address `before` belong to that change only
    if they went to the same subscriber."""

    list: str
    before: str
    after: str


class ForeignIdResource(Resource, frozen=True):
    """An id that a subscriber of a list had in another tool, from which they were imported. Its old
    links unsubscribe."""

    list: str
    id: str


class TracedEmailResource(MessageSummary, frozen=True):
    """A message, and the outcome of its email to one address."""

    email: str
    outcome: str
    reply: str | None
    tries: int
    was_in_doubt: bool
    bounces: Sequence[BounceResource]
    opened_at: Annotated[Time | None, Meta(description=_RECORDED)]
    clicked_at: Annotated[Time | None, Meta(description=_RECORDED)]
    links: Annotated[Sequence[str], Meta(description="The links that they clicked.")]


class TraceResource(Resource, frozen=True):
    """Everything that happened to one address. `foreign_ids` is null for keys that do not see
    GUIDs, because an id unsubscribes its owner."""

    email: str
    lists: Sequence[SubscriberResource]
    left: Sequence[LeftListResource]
    consent: Sequence[ConsentEntryResource]
    suppressions: Sequence[SuppressionResource]
    messages: Sequence[TracedEmailResource]
    address_changes: Sequence[FormerAddressResource]
    foreign_ids: Sequence[ForeignIdResource] | None


def describe_trace(trace: Trace, *, with_guid: bool = True) -> TraceResource:
    return TraceResource(
        email=trace.address,
        lists=[describe_subscriber(each, with_guid=with_guid) for each in trace.subscriptions],
        left=[
            LeftListResource(each.list_name, describe_time(each.left_at))
            for each in trace.unsubscribes
        ],
        consent=[entry for each in trace.consent for entry in describe_consent(each)],
        suppressions=[describe_suppression(each) for each in trace.suppressions],
        messages=[
            TracedEmailResource(
                **msgspec.structs.asdict(describe_message_summary(message)),
                **msgspec.structs.asdict(describe_email(email)),
                bounces=[describe_bounce(each) for each in trace.bounces.get(message.ref, ())],
                **_engagement(trace.engagement.get(message.ref)),
            )
            for message, email in trace.emails
        ],
        address_changes=[
            *(FormerAddressResource(f.list_name, f.key, trace.address) for f in trace.former),
            *(FormerAddressResource(m.list_name, trace.address, m.address) for m in trace.moved),
        ],
        foreign_ids=[ForeignIdResource(each.list_name, each.id) for each in trace.foreign_ids]
        if with_guid
        else None,
    )


class ErasureResource(Resource, frozen=True):
    """What an erasure did: the lists that the address was removed from, how many records of emails
    it was erased from, and the messages whose records follow once they are finished."""

    email: str
    lists: Sequence[str]
    emails: int
    waiting: Sequence[str]


def describe_erasure(done: Erasure) -> ErasureResource:
    return ErasureResource(done.address, done.lists, done.emails, done.waiting)


class OwnSubscriptionResource(Resource, frozen=True):
    """A subscription as its owner may see it: without what the team keeps to itself."""

    list: str
    email: str
    confirmed: bool
    signed_up_at: Time
    confirmed_at: Time | None
    paused_until: Time | None
    attributes: dict[str, AttributeValue]
    consent: str
    tracking: bool
    source: str
    former_addresses: Sequence[str]


class OwnEmailResource(Resource, frozen=True):
    """An email to a subscriber, as they may see it; `email` is the address it went to."""

    ref: str
    email: str
    subject: str
    sent_at: Time | None
    outcome: EmailOutcome
    reply: str | None
    opened_at: Time | None
    clicked_at: Time | None
    links: Sequence[str]


class PersonalDataResource(Resource, frozen=True):
    """What subscribers get when they download their data: one subscription, its entries in the
    consent ledger, its emails, and its ids in tools from which it was imported."""

    subscription: OwnSubscriptionResource
    consent: Sequence[ConsentEntryResource]
    messages: Sequence[OwnEmailResource]
    foreign_ids: Sequence[str]


def describe_personal_data(
    subscriber: Subscriber,
    history: ConsentHistory | None,
    emails: Sequence[tuple[Message, EmailRecord]],
    engagement: Mapping[MessageRef, PersonResult],
    foreign_ids: Sequence[ForeignId],
) -> PersonalDataResource:
    subscription = OwnSubscriptionResource(
        list=subscriber.list_name,
        email=subscriber.address,
        confirmed=subscriber.verified,
        signed_up_at=describe_time(subscriber.created_at),
        confirmed_at=describe_time(subscriber.verified_at),
        paused_until=describe_time(subscriber.paused_until),
        attributes=dict(subscriber.attributes),
        consent=subscriber.consent,
        tracking=subscriber.tracking,
        source=str(subscriber.known.get("source", "")),
        former_addresses=subscriber.former_addresses,
    )
    messages = [
        OwnEmailResource(
            ref=message.ref,
            email=email.address,
            subject=message.subject,
            sent_at=describe_time(message.queued_at),
            outcome=email.outcome,
            reply=email.reply or None,
            **_engagement(engagement.get(message.ref)),
        )
        for message, email in emails
    ]
    consent = [] if history is None else list(describe_consent(history))
    ids = [each.id for each in foreign_ids]
    return PersonalDataResource(subscription, consent, messages, ids)


def _engagement(found: PersonResult | None) -> dict[str, Any]:
    if found is None:
        return {"opened_at": None, "clicked_at": None, "links": []}
    return {
        "opened_at": describe_time(found.opened_at),
        "clicked_at": describe_time(found.clicked_at),
        "links": list(found.links),
    }
