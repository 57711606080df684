"""The store: can it be opened, written and read, does its clock agree, and what is wrong in it?"""

from __future__ import annotations

from datetime import UTC, datetime
from shlex import quote

from postroom.checks.findings import Finding, FindingState, one_line
from postroom.domain.queues.queue_names import is_subqueue
from postroom.errors import PostroomError
from postroom.services.audience.consent.consent_ledger import LedgerReport
from postroom.services.audience.from_domains import from_domains
from postroom.services.operations.health import Concern
from postroom.services.stored_secrets import SecretState
from postroom.settings import Settings
from postroom.storage import AccessDenied, InvalidStoreUrl, Store, StoreUnavailable
from postroom.wiring import Services, make_keyring, opened_store

# Messages are due by the clock of the machine that looks: people notice a larger difference.
_CLOCK_SECONDS = 5.0
_QUEUE = "postroom/check"
_FAULTS = 10  # of the consent ledger, shown
_LEDGER_ADVICE = "Someone changed the store by hand, or it is damaged. Compare it with a backup."
_SECRET_STATES = {
    SecretState.UNREADABLE: (
        FindingState.ERROR,
        "in the store cannot be decrypted: their key is not set",
        "Add it to POSTROOM_OLD_SECRET_KEYS.",
    ),
    SecretState.OLD_KEY: (
        FindingState.WARNING,
        "in the store encrypted under an old key",
        "Run `postroom store rekey` once every part has the new one.",
    ),
    SecretState.CLEAR: (
        FindingState.WARNING,
        "in the store in clear text",
        "Run `postroom store rekey`.",
    ),
}


async def check_store(settings: Settings) -> tuple[list[Finding], list[str]]:
    """Return the findings, and the domains that lists send from."""
    try:
        async with opened_store(settings) as store:
            services = Services(store, make_keyring(settings))
            info = await store.info()
            text = f"{info.engine} at {info.location}, schema version {info.schema_version}"
            findings = [
                Finding("store", FindingState.OK, text),
                await _check_clock(store),
                *await _check_secrets(services),
                *await _check_queues(services),
                *await _check_space(services),
                *await check_proxies(settings, services),
                *await _check_ledger(services),
            ]
            return findings, await _sending_domains(services)
    except PostroomError as exc:
        return [Finding("store", FindingState.ERROR, one_line(exc), _advice(exc, settings))], []


async def _check_clock(store: Store) -> Finding:
    """Put a queue message and read it back, which shows that both work, and the store's time."""
    queue = store.queue(_QUEUE)
    before = datetime.now(UTC)
    await queue.put("clock", ttl=60)
    found = await queue.peek()
    after = datetime.now(UTC)
    await queue.drop()
    if not found:
        return Finding(
            "clock", FindingState.WARNING, "the store did not return what was just put into it"
        )
    # Azure returns whole seconds.
    early = (before - found[0].enqueued_at).total_seconds() - 1
    late = (found[0].enqueued_at - after).total_seconds()
    apart = max(early, late, 0.0)
    if apart > _CLOCK_SECONDS:
        return Finding(
            "clock",
            FindingState.ERROR,
            f"this machine and the store differ by {apart:,.0f} s",
            "Synchronise both with NTP: they decide when messages are due.",
        )
    return Finding("clock", FindingState.OK, "this machine and the store agree")


async def _check_secrets(services: Services) -> list[Finding]:
    """Warn of secrets in the store that are not encrypted under the current key."""
    counts = await services.secrets.count()
    found = [
        Finding("secrets", state, f"{counts[each]:,} of {counts.total():,} {text}", advice)
        for each, (state, text, advice) in _SECRET_STATES.items()
        if counts[each]
    ]
    if not found and counts:
        text = f"{counts.total():,} in the store, encrypted under the current key"
        return [Finding("secrets", FindingState.OK, text)]
    return found


async def _check_queues(services: Services) -> list[Finding]:
    """Warn of stopped queues and of messages that failed for good."""
    concerns = (await services.health.look()).concerns
    found = [
        Finding("queues", FindingState.WARNING, each.text, _queue_advice(each)) for each in concerns
    ]
    return found or [
        Finding("queues", FindingState.OK, "no queue is stopped, no message has failed")
    ]


async def _check_space(services: Services) -> list[Finding]:
    """Report messages that wait for disk space on the scheduler's machine."""
    wait = await services.space_waits.current()
    if wait is None:
        return []
    text = f"no new message starts: {wait.shortage} for {wait.place}"
    advice = "Free up disk space; messages that are due then start automatically."
    return [Finding("scheduler", FindingState.ERROR, text, advice)]


async def check_proxies(settings: Settings, services: Services) -> list[Finding]:
    """Warn of each proxy that forwards requests and is not trusted."""
    trusted = settings.web.trusted_proxies
    return [
        Finding(
            "proxy",
            FindingState.WARNING,
            f"requests came through a proxy at {address}, which is not trusted: all visitors look"
            " like one and share its limits on logins, sign-ups and connections",
            f"Add it to the setting trusted_proxies: POSTROOM_TRUSTED_PROXIES={address}",
        )
        for address in await services.proxy_sightings.recent()
        if address not in trusted
    ]


async def _check_ledger(services: Services) -> list[Finding]:
    """Verify the consent ledger of all lists; report the first chains that are broken."""
    report, found = LedgerReport(), list[Finding]()
    async for name in services.lists.all_names():
        async for each in services.ledger.faults(name, report):
            if len(found) < _FAULTS:
                text = f"list {name}, subscriber {each.guid}: {each.fault}"
                found.append(Finding("consent ledger", FindingState.ERROR, text, _LEDGER_ADVICE))
    if found or not report.chains:
        return found
    text = f"all intact (subscriptions: {report.chains:,}, entries: {report.entries:,})"
    return [Finding("consent ledger", FindingState.OK, text)]


async def _sending_domains(services: Services) -> list[str]:
    return list(await from_domains(services.lists))


def _queue_advice(concern: Concern) -> str:
    queue = concern.queue
    if is_subqueue(queue):
        return (
            f"See why with postroom queue peek {quote(queue)} and postroom queue history ID; bring"
            f" them back with postroom queue redrive {quote(queue)}."
        )
    return f"See postroom queue ls and postroom app explain {quote(queue)}."


def _advice(exc: PostroomError, settings: Settings) -> str:
    if isinstance(exc, StoreUnavailable):
        return "Is it running, and are host and port right?"
    if isinstance(exc, AccessDenied):
        return "Check user, password and rights."
    if isinstance(exc, InvalidStoreUrl):
        return f"Correct the setting store (from {settings.found['store'].origin})."
    return ""
