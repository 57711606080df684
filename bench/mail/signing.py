"""DKIM signing, compared with bare signatures by the same library in as many threads."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256

from bench.effort import Effort
from bench.figures import Figure
from bench.mail.content import mailing, recipient
from postroom.mail.dkim import DkimSigner
from postroom.sender.signing import SignedMailing

_KILOBYTES = 2
_CHUNK = 10  # as the sender does
_MAILS = 10_000


def figures(effort: Effort) -> list[Figure]:
    """Compare composing, hashing and signing with signing alone."""
    rsa_key = rsa.generate_private_key(65537, 2048)
    ed_key = ed25519.Ed25519PrivateKey.generate()
    digest = hashlib.sha256(b"a digest").digest()
    scheme, algorithm = padding.PKCS1v15(), Prehashed(SHA256())
    by_rsa = DkimSigner("contoso.example", "one", rsa_key)
    by_ed = DkimSigner("contoso.example", "two", ed_key)

    def raw_rsa() -> None:
        rsa_key.sign(digest, scheme, algorithm)

    def raw_both() -> None:
        rsa_key.sign(digest, scheme, algorithm)
        ed_key.sign(digest)

    mails = effort.size(_MAILS)
    found = []
    for what, signers, raw, target in (
        ("signed with RSA-2048", [by_rsa], raw_rsa, 0.8),
        ("signed with RSA-2048 and Ed25519", [by_rsa, by_ed], raw_both, None),
    ):
        ours, baseline = effort.medians(
            lambda signers=signers: _signed(signers, mails),  # type: ignore[misc]
            lambda raw=raw: _in_threads(lambda _: raw(), mails),  # type: ignore[misc]
        )
        found.append(
            Figure(
                f"{_KILOBYTES} KB emails composed and {what}, {os.cpu_count()} threads",
                ours,
                "per second",
                baseline,
                "signing alone",
                target=target,
            )
        )
    return found


def _signed(signers: list[DkimSigner], mails: int) -> float:
    signed = SignedMailing(mailing(_KILOBYTES), signers)
    return _in_threads(lambda number: signed.sign([recipient(number)]), mails)


def _in_threads(work: Callable[[int], None], count: int) -> float:
    """Return the emails per second."""

    def chunk(start: int) -> None:
        for number in range(start, min(start + _CHUNK, count)):
            work(number)

    began = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(chunk, range(0, count, _CHUNK)))
    return count / (time.perf_counter() - began)
