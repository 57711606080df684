"""The store: can it be opened, written and read, and does its clock agree with ours?"""

from __future__ import annotations

from datetime import UTC, datetime
from shlex import quote

from postroom.checks.findings import Finding, State, one_line
from postroom.checks.keys import check_secrets
from postroom.checks.proxies import check_proxies
from postroom.domain.audience.addresses import domain_of, parse_address
from postroom.domain.queues.queue_names import is_subqueue
from postroom.errors import PostroomError
from postroom.services.operations.health import Concern
from postroom.settings import Settings
from postroom.storage import AccessDenied, InvalidStoreUrl, Store, StoreUnavailable
from postroom.wiring import Services, opened_store

# Messages are due by the clock of the machine that looks: more than this is noticed by people.
_CLOCK_SECONDS = 5.0
_QUEUE = "postroom/check"
_LISTS = 1000


async def check_store(settings: Settings) -> tuple[list[Finding], list[str]]:
    """What was found, and the domains that lists send from."""
    try:
        async with opened_store(settings) as store:
            info = await store.info()
            found = Finding(
                "store",
                State.OK,
                f"{info.engine} at {info.location}, schema version {info.schema_version}",
            )
            secrets = await check_secrets(settings, store)
            queues = await _check_queues(store)
            proxies = await check_proxies(settings, store)
            space = await _check_space(store)
            findings = [found, await _check_clock(store), *secrets, *queues, *space, *proxies]
            return findings, await _sending_domains(store)
    except PostroomError as exc:
        return [Finding("store", State.ERROR, one_line(exc), _advice(exc, settings))], []


async def _check_clock(store: Store) -> Finding:
    """A message that is put and read back shows that both work, and the store's time."""
    queue = store.queue(_QUEUE)
    before = datetime.now(UTC)
    await queue.put("clock", ttl=60)
    found = await queue.peek()
    after = datetime.now(UTC)
    await queue.drop()
    if not found:
        return Finding("clock", State.WARNING, "the store did not show what was just put into it")
    # Azure tells whole seconds.
    early = (before - found[0].enqueued_at).total_seconds() - 1
    late = (found[0].enqueued_at - after).total_seconds()
    apart = max(early, late, 0.0)
    if apart > _CLOCK_SECONDS:
        return Finding(
            "clock",
            State.ERROR,
            f"this machine and the store differ by {apart:,.0f} s",
            "Set both by NTP: messages are due by these clocks.",
        )
    return Finding("clock", State.OK, "this machine and the store agree")


async def _check_queues(store: Store) -> list[Finding]:
    """Queues that are stopped, and messages that failed for good."""
    concerns = (await Services(store).health.look()).concerns
    found = [Finding("queues", State.WARNING, each.text, _queue_advice(each)) for each in concerns]
    return found or [Finding("queues", State.OK, "no queue is stopped, no message has failed")]


async def _check_space(store: Store) -> list[Finding]:
    """Whether messages wait for disk space on the machine of the scheduler."""
    wait = await Services(store).space_waits.current()
    if wait is None:
        return []
    text = f"no new message starts: {wait.shortage} for {wait.place}"
    advice = "Free disk space; messages that are due then start by themselves."
    return [Finding("scheduler", State.ERROR, text, advice)]


def _queue_advice(concern: Concern) -> str:
    queue = concern.queue
    if is_subqueue(queue):
        return (
            f"See why with postroom queue peek {quote(queue)} and postroom queue history ID; bring"
            f" them back with postroom queue redrive {quote(queue)}."
        )
    return f"See postroom queue ls and postroom app explain {quote(queue)}."


async def _sending_domains(store: Store) -> list[str]:
    page = await Services(store).lists.page(limit=_LISTS)
    domains = {domain_of(parse_address(each.from_address)) for each in page.lists}
    return sorted(domains)


def _advice(exc: PostroomError, settings: Settings) -> str:
    if isinstance(exc, StoreUnavailable):
        return "Is it running, and are host and port right?"
    if isinstance(exc, AccessDenied):
        return "Check user, password and rights."
    if isinstance(exc, InvalidStoreUrl):
        return f"Correct the setting store (from {settings.found['store'].origin})."
    return ""
