"""After an erasure, the whole store says nothing about the person: tables, blobs and queues."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.consent import ConsentSource
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.hits import OPENED
from postroom.domain.messages.messages import Message
from postroom.sender.pages.settling import settled
from postroom.services.audience.consent.consent_ledger import LedgerReport
from postroom.services.messages.sending.holds import Holds
from postroom.services.resources.personal_data import describe_trace
from postroom.storage import Store
from postroom.wiring import Services, make_withdrawn_consents
from tests.integration.usecases.audience.imports.test_import_runs import NEWS, Process
from tests.integration.usecases.audience.results.test_personal_hits import count, hit, tracked
from tests.integration.usecases.making import make_list
from tests.integration.usecases.pages import check_sum, claimed, record, state

NAME, LEFT = ListName("contoso1"), ListName("contoso2")
OLD, NEW = Address("Zelda.Quux@example.com"), Address("zelda.quux@example.org")
EVIDENCE = re.compile("quux", re.IGNORECASE)
"""In her addresses, fields, note and consent, and in what mail servers and files say about her."""

FORM = ConsentSource("sign-up page", "I agree to the newsletter.", "digest of quux")
FOREIGN_ID = "0b5e7c1a-6f2d-4c3e-9a8b-7d6e5f4a3b2c"
EXPORT = f"""email,uuid,city,note,status,created_at
{OLD},{FOREIGN_ID},Quuxville,"met Zelda Quux, at the fair",active,2020-01-02
bob@example.com,{FOREIGN_ID[::-1]},Bern,,active,2020-01-02
"""
REJECTED = f"""email,name,status
{NEW},Zelda Quux,quuxish
carl@example.com,Carl,unknown
"""

HELD = {
    "blob imports": "the uploaded file, the report and rejected lines",
    "queue mail/confirm": "the new address, which she has to confirm",
    "queue mail/suppress": "an address that was suppressed",
    "table mailinglist": "the subscriber, former addresses and the consent ledger",
    "table messagebounce": "what a mail server says about her mailbox",
    "table messagepage": "her emails",
    "table suppression": "the suppressed addresses",
    "table suppressionindex": "the same by time",
}
"""Where evidence must be before the erasure, so that finding none afterwards means something."""

STAYS = {
    r"blob imports: file/.*": "a file that waits for its confirmation, for seven days at most",
    r"queue mail/(confirm|suppress)": "work that is done, or in vain, within seconds",
}
"""Where her addresses stay, and why."""

GUID_STAYS = {
    r"table mailinglist: ledger(import)?:.*": "the chain of the consent ledger, without details",
    r"queue mail/confirm": "work that is in vain",
}
"""Where the GUIDs of her subscriptions stay, which lead to nobody."""


async def everything(store: Store) -> AsyncIterator[tuple[str, str]]:
    """Yield the places of the store, with all that each of them holds."""
    for table in await store.tables():
        async for entity in store.table(table).scan():
            packed = [each.hex() for each in entity.properties.values() if isinstance(each, bytes)]
            yield f"table {table}: {entity.row}", f"{entity!r} {packed}"
    for container in await store.containers():
        listing = await store.container(container).list()
        assert listing.next is None
        for blob in listing.blobs:
            content = await store.container(container).read(blob.name)
            yield f"blob {container}: {blob.name}", f"{blob} {content!r}"
    for queue in await store.queues():
        async for message in store.queue(queue.name).scan():
            yield f"queue {queue.name}", repr(message)


async def places(store: Store, evidence: re.Pattern[str]) -> list[str]:
    return sorted({place async for place, text in everything(store) if evidence.search(text)})


async def settle_with_replies(services: Services, message: Message) -> None:
    """The mail server accepts all emails, and repeats their addresses."""
    page = await claimed(services.store, message, 0)
    states = {
        place: state(EmailOutcome.ACCEPTED, f"250 2.1.5 <{page.emails.addresses[place]}> ok")
        for place in page.emails.pending()
    }
    await record(services.store, page, settled(page, states, Holds(), datetime.now(UTC)))


async def live_a_full_life(services: Services) -> tuple[list[str], list[Message]]:
    """Let somebody leave traces wherever people can; return their GUIDs, and two messages."""
    for name in (NAME, LEFT, NEWS):
        await make_list(services, name)
    await services.fields.declare(NAME, [Field("city", public=True)])

    columns = {"uuid": "foreign_id", "note": "note", "created_at": "joined"}
    await services.imports.import_csv(NAME, io.BytesIO(EXPORT.encode()), columns=columns)
    await services.subscriptions.subscribe(LEFT, OLD, source=FORM)
    gone = await services.subscriptions.get(LEFT, OLD)
    await services.subscriptions.confirm(LEFT, gone.guid, FORM)
    await services.subscriptions.unsubscribe(LEFT, gone.guid, FORM)

    zelda = await services.subscriptions.get(NAME, OLD)
    rows = services.subscriptions.rows
    agreed = msgspec.structs.replace(zelda, tracking=True)
    await rows.save(zelda, agreed, zelda.etag, FORM)
    first = await tracked(services)
    await settle_with_replies(services, first)
    await count(services, [hit(first, zelda, n) for n in (OPENED, 1)])

    await services.subscriptions.subscribe(
        NAME, OLD, attributes={"city": "Quux City"}, source=FORM, may_change=True
    )
    zelda = await services.subscriptions.get(NAME, OLD)
    assert zelda.pending_attributes
    await services.preferences.request_address(zelda, NEW, language="", place="192.0.2.1")
    await services.subscriptions.change_address(NAME, OLD, NEW)
    second = await tracked(services)
    await settle_with_replies(services, second)
    zelda = await services.preferences.pause(await services.subscriptions.get(NAME, NEW))
    await services.suppressions.record(
        Bounce(
            BounceKind.GONE, "event1", BounceSource.SMTP, datetime.now(UTC), NAME,
            subscriber=zelda.guid, address=NEW, ref=second.ref, status="5.1.1", by_code=True,
            diagnostic=f"550 5.1.1 <{NEW}>: no mailbox of Zelda Quux",
        )
    )  # fmt: skip
    await services.suppressions.suppress(OLD, "complaint", source="test")

    process = Process(services)
    assert (await process.checked(REJECTED.encode())).report.rejected == 2
    done = await process.checked(REJECTED.encode())
    assert await process.runs.confirm(done)
    assert (await process.ended(done)).report.rejected == 2
    await process.background.stop()
    return [zelda.guid, gone.guid], [first, second]


def unexpected(found: Collection[str], allowed: Mapping[str, str]) -> list[str]:
    """Return the places that no exception allows; every exception must be needed."""
    assert all(any(re.fullmatch(each, place) for place in found) for each in allowed)
    return [each for each in found if not any(re.fullmatch(known, each) for known in allowed)]


async def test_an_erasure_leaves_nothing_anywhere_in_the_store(
    services: Services, store: Store
) -> None:
    guids, messages = await live_a_full_life(services)
    of_guid = re.compile("|".join(guids + [each.replace("-", "") for each in guids]))
    before = await places(store, EVIDENCE)
    assert {each.partition(":")[0] for each in before} == HELD.keys(), before
    tables = {each.partition(":")[0] for each in await places(store, of_guid)}
    assert tables >= {"table engagement", "table foreignid", "table messagepage"}, tables

    exported = describe_trace(await services.tracing.trace(NEW)).foreign_ids
    assert [(each.list, each.id) for each in exported or ()] == [(NAME, FOREIGN_ID)]

    done = await services.personal_data.erase(NEW)
    await make_withdrawn_consents(services).finish()  # the scheduler does this

    assert (done.lists, done.emails, done.waiting) == ([NAME], 2, [])
    assert unexpected(await places(store, EVIDENCE), STAYS) == []
    assert unexpected(await places(store, of_guid), GUID_STAYS) == []
    assert await places(store, re.compile(FOREIGN_ID)) == []
    assert len(await places(store, re.compile("carl@example.com"))) >= 3, "others stay in reports"
    for message in messages:
        await check_sum(services, message)
    for name in (NAME, LEFT, NEWS):
        assert [each async for each in services.ledger.faults(name, LedgerReport())] == []
    for each in (OLD, NEW):
        trace = await services.tracing.trace(each)
        assert [one.address for one in trace.suppressions] == [""], "only the digest"
        for found in (trace.subscriptions, trace.emails, trace.consent, trace.foreign_ids):
            assert len(found) == 0
