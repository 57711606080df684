"""DKIM keys in DNS: is the right one published, and does it verify what we sign?"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64decode
from typing import TYPE_CHECKING, Final

from postroom.domain.messages.delivery.dkim_keys import DkimAlgorithm, DkimKey, DkimKeyState
from postroom.mail.dkim import DkimSigner
from postroom.services.messages.domains.dns_lookups import DnsLookups
from postroom.services.messages.domains.record_findings import (
    DnsRecord,
    RecordFinding,
    RecordState,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

_KIND: Final = "DKIM"
_TESTED: Final = hashlib.sha256(b"a test of the key in DNS").digest()


async def check_own_key(dns: DnsLookups, key: DkimKey, signer: DkimSigner) -> RecordFinding:
    """Sign a test, and verify it with the key in DNS as a receiver would."""
    name = key.record_name
    kind = f"{_KIND} {key.selector}"
    record = DnsRecord(name, "TXT", key.record_value)
    published = [each for each in await dns.texts(name) if "p=" in each]
    if not published:
        state = RecordState.WRONG if key.state is DkimKeyState.SIGNING else RecordState.WEAK
        return RecordFinding(
            kind, state, f"there is no key at {name}", "Publish this record.", record
        )
    if len(published) > 1:
        text = f"there are {len(published)} keys at {name}: receivers may use either"
        return RecordFinding(kind, RecordState.WRONG, text, "Keep this record only.", record)
    if not _verifies(published[0], signer):
        text = f"the key at {name} is another one: it does not verify our signatures"
        return RecordFinding(kind, RecordState.WRONG, text, "Replace it with this record.", record)
    return RecordFinding(
        kind, RecordState.FINE, f"the key at {name} verifies our signatures", record=record
    )


async def check_selector(dns: DnsLookups, domain: str, selector: str) -> RecordFinding:
    """Look for the key of a mail server that signs."""
    if not selector:
        return RecordFinding(
            _KIND,
            RecordState.WEAK,
            "not looked up: the signing mail server knows its selector",
            "Set dkim_selector to the s= of DKIM-Signature in an email that your server has signed;"
            " its record is at SELECTOR._domainkey of the domain.",
        )
    name = f"{selector}._domainkey.{domain}"
    keys = [each for each in await dns.texts(name) if "p=" in each]
    if not keys:
        text = f"there is no key at {name}"
        advice = "Publish the public key of the signing server in place of KEY."
        record = DnsRecord(name, "TXT", "v=DKIM1; k=rsa; p=KEY")
        return RecordFinding(_KIND, RecordState.WEAK, text, advice, record)
    if re.search(r"\bp=\s*(;|$)", keys[0]):
        text = f"the key at {name} is revoked"
        return RecordFinding(_KIND, RecordState.WRONG, text, "Publish a new one.")
    return RecordFinding(_KIND, RecordState.FINE, f"there is a key at {name}")


def _verifies(record: str, signer: DkimSigner) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
    from cryptography.hazmat.primitives.hashes import SHA256

    pairs = (each.partition("=") for each in record.split(";"))
    tags = {name.strip().lower(): "".join(value.split()) for name, _, value in pairs}
    signature = b64decode(signer.sign(_TESTED))
    try:
        public = _public_key(tags.get("k", "rsa"), b64decode(tags.get("p", ""), validate=True))
        if isinstance(public, ed25519.Ed25519PublicKey):
            public.verify(signature, _TESTED)
        elif isinstance(public, rsa.RSAPublicKey):
            public.verify(signature, _TESTED, padding.PKCS1v15(), Prehashed(SHA256()))
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, binascii.Error):
        return False
    return True


def _public_key(algorithm: str, encoded: bytes) -> PublicKeyTypes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    if algorithm == DkimAlgorithm.ED25519:
        return Ed25519PublicKey.from_public_bytes(encoded)
    return load_der_public_key(encoded)
