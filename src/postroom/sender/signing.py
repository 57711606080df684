"""DKIM signing, as a transport: emails of a domain with keys are signed, all others pass through.

A batch is signed before it is sent, in threads: OpenSSL releases the GIL, so signing uses all cores
while the event loop continues with other batches. Only signatures are kept, not emails: a mailing
composes the same bytes again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, Protocol
from weakref import WeakValueDictionary

from postroom import clock
from postroom.domain.audience.addresses import domain_of
from postroom.encryption import DecryptionError
from postroom.mail.dkim import DkimSigner, MailSigner
from postroom.mail.mailing import EmailGroup, Mailing, Recipient
from postroom.mail.wire_addresses import ascii_domain
from postroom.storage import StoreOutage
from postroom.transport.batch import settle_alike
from postroom.transport.contract import (
    ConnectionQuota,
    FaultScope,
    Result,
    ResultKind,
    Transport,
    Watcher,
)
from postroom.tuning import free_this_thread

log = logging.getLogger(__name__)

_CHUNK: Final = 10  # emails signed at a time: enough to make the hand-over to a thread cheap
_STORE_SECONDS: Final = 1.0


class KeysOfDomains(Protocol):
    async def of_domain(self, domain: str) -> Sequence[DkimSigner]: ...


class SignedMailing(Mailing):
    """A mailing with a signature before each email."""

    def __init__(self, mailing: Mailing, signers: Sequence[DkimSigner]) -> None:
        self.from_address = mailing.from_address
        self.subject = mailing.subject
        self.list_name = mailing.list_name
        self.envelope = mailing.envelope
        self.signers = signers
        self._mailing = mailing
        self._signer = MailSigner(signers, int(clock.timestamp()))
        self._signatures: dict[tuple[str, str], bytes] = {}

    def sign(self, recipients: Sequence[Recipient]) -> None:
        """Keep the signatures of these emails. Those that cannot be composed are left out."""
        emails = self._mailing.group(recipients)
        for place, each in enumerate(recipients):
            with suppress(Exception):  # it is raised again, and dealt with, where it is sent
                self._signatures[each.guid, each.address] = self._signer.signatures(
                    emails.mail(place)
                )

    def forget(self, recipients: Sequence[Recipient]) -> None:
        for each in recipients:
            self._signatures.pop((each.guid, each.address), None)

    def mail(self, recipient: Recipient) -> bytes:
        return self.signature(recipient) + self._mailing.mail(recipient)

    def wire(self, recipient: Recipient) -> bytes:
        return self.signature(recipient) + self._mailing.wire(recipient)

    def group(self, recipients: Sequence[Recipient]) -> EmailGroup:
        return _SignedGroup(self, recipients, self._mailing.group(recipients))

    def message_id(self, recipient: Recipient) -> str:
        return self._mailing.message_id(recipient)

    @property
    def needs_smtputf8(self) -> bool:
        return self._mailing.needs_smtputf8

    def signature(self, recipient: Recipient) -> bytes:
        """Return the header that signs the email to a recipient."""
        known = self._signatures.get((recipient.guid, recipient.address))
        return (
            known if known is not None else self._signer.signatures(self._mailing.mail(recipient))
        )


class _SignedGroup(EmailGroup):
    def __init__(
        self, mailing: SignedMailing, recipients: Sequence[Recipient], unsigned: EmailGroup
    ) -> None:
        super().__init__(mailing, recipients)
        self._signed = mailing
        self._unsigned = unsigned

    def mail(self, place: int) -> bytes:
        return self._signed.signature(self._recipients[place]) + self._unsigned.mail(place)

    def wire(self, place: int) -> bytes:
        return self._signed.signature(self._recipients[place]) + self._unsigned.wire(place)

    def token(self, place: int) -> str:
        return self._unsigned.token(place)


class SigningTransport(Transport):
    """Signs what another transport sends."""

    def __init__(self, transport: Transport, keys: KeysOfDomains) -> None:
        self._transport = transport
        self._keys = keys
        # One for each mailing that is being sent: a transport recognises the emails of a message by
        # it. It refers to its mailing, so both are freed with the last batch.
        self._signed: WeakValueDictionary[Mailing, SignedMailing] = WeakValueDictionary()
        self._threads: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return f"SigningTransport({self._transport!r})"

    @property
    def concurrency(self) -> int:
        return self._transport.concurrency

    def limit_connections(self, most: int) -> None:
        self._transport.limit_connections(most)

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        domain = ascii_domain(domain_of(mailing.from_address)).lower()
        try:
            signers = await self._signers(domain)
        except DecryptionError as exc:
            reason = f"The DKIM key of {domain} cannot be decrypted"
            held = Result(ResultKind.HELD, str(exc), FaultScope.MESSAGE, reason)
            return settle_alike(held, len(recipients), watcher)
        if not signers:
            return await self._transport.send(mailing, recipients, watcher, quota)
        signed = self._signed.get(mailing)
        if signed is None or signed.signers is not signers:
            signed = self._signed[mailing] = SignedMailing(mailing, signers)
        try:
            await self._sign(signed, recipients)
            return await self._transport.send(signed, recipients, watcher, quota)
        finally:
            signed.forget(recipients)

    async def check(self) -> str:
        return await self._transport.check()

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        await self._transport.close()

    async def _signers(self, domain: str) -> Sequence[DkimSigner]:
        """Return what signs. While the keys cannot be read, emails wait: unsigned ones might be
        rejected."""
        while True:
            try:
                return await self._keys.of_domain(domain)
            except StoreOutage as exc:
                log.warning("emails wait because the DKIM keys cannot be read: %s", exc)
                await asyncio.sleep(_STORE_SECONDS)

    async def _sign(self, mailing: SignedMailing, recipients: Sequence[Recipient]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                os.cpu_count(), thread_name_prefix="dkim", initializer=free_this_thread
            )
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(
                loop.run_in_executor(
                    self._threads, mailing.sign, recipients[start : start + _CHUNK]
                )
                for start in range(0, len(recipients), _CHUNK)
            )
        )
