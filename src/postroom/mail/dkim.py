"""DKIM signatures (RFC 6376) with RSA-2048 and Ed25519 (RFC 8463).

Headers are canonicalised `relaxed`, so that servers may fold them differently; the body is
`simple`, which costs nothing: only line ends after the last line do not count.

The header fields of one message are mostly the same for all of its recipients. Such a field is
canonicalised once: `MailSigner` keeps the last text of each.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from postroom.domain.messages.delivery.dkim_keys import DkimAlgorithm

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

SIGNED_HEADERS: Final = frozenset(
    {
        b"from",
        b"reply-to",
        b"to",
        b"subject",
        b"date",
        b"message-id",
        b"mime-version",
        b"content-type",
        b"content-transfer-encoding",
        b"list-id",
        b"list-unsubscribe",  # RFC 8058 4 requires both
        b"list-unsubscribe-post",
        b"feedback-id",
    }
)
RSA_BITS: Final = 2048

_FIELD_END: Final = re.compile(rb"\r\n(?![ \t])")
_WHITE: Final = re.compile(rb"[ \t\r\n]+")
_LINE: Final = 72
_FROM: Final = b"from"


class DkimSigner:
    """Signs with one key. It may be used by several threads at the same time."""

    def __init__(self, domain: str, selector: str, private_key: PrivateKeyTypes) -> None:
        self.domain = domain
        self.selector = selector
        self.algorithm, self._sign = _signing(private_key)

    def sign(self, digest: bytes) -> bytes:
        """Return the signature of a SHA-256 digest, in Base64."""
        return b64encode(self._sign(digest))


class MailSigner:
    """Signs the emails of one message with all keys of its domain. It may be used by several
    threads at the same time."""

    def __init__(self, signers: Sequence[DkimSigner], signed_at: int) -> None:
        """`signed_at` is when the message was first signed, in seconds since 1970."""
        self._signers = tuple(signers)
        self._signed_at = signed_at
        self._canonical: dict[bytes, tuple[bytes, bytes]] = {}
        self._forms: tuple[tuple[bytes, ...], list[_SignatureForm]] = ((), [])

    def signatures(self, mail: bytes) -> bytes:
        """Return the DKIM-Signature headers to put before an email with CRLF line ends."""
        end = mail.find(b"\r\n\r\n")
        # From the last to the first: of several fields with one name, the last counts first.
        fields = [self._relaxed(each) for each in _FIELD_END.split(mail[:end])[::-1]]
        covered = [each for each in fields if each]
        names = tuple(each.partition(b":")[0] for each in covered)
        body_hash = b64encode(_body_digest(mail, end + 4))
        head = hashlib.sha256(b"".join(covered))
        signed = []
        for signer, form in zip(self._signers, self._forms_for(names), strict=True):
            digest = head.copy()
            digest.update(form.canonical % body_hash)
            signature = signer.sign(digest.digest())
            signed.append(form.header % (body_hash, _folded(signature)))
        return b"".join(signed)

    def _relaxed(self, field: bytes) -> bytes:
        """Return a field as RFC 6376 3.4.2 says, with its line end; nothing for one that is not
        covered."""
        name, _, value = field.partition(b":")
        known = self._canonical.get(name)
        if known is not None and known[0] == value:
            return known[1]
        shown = name.strip().lower()
        relaxed = b""
        if shown in SIGNED_HEADERS:
            relaxed = b"%b:%b\r\n" % (shown, _WHITE.sub(b" ", value).strip(b" "))
        self._canonical[name] = value, relaxed
        return relaxed

    def _forms_for(self, names: tuple[bytes, ...]) -> list[_SignatureForm]:
        known, forms = self._forms
        if known != names:
            forms = [_SignatureForm(each, names, self._signed_at) for each in self._signers]
            self._forms = names, forms
        return forms


class _SignatureForm:
    """A DKIM-Signature header without its hashes."""

    __slots__ = ("canonical", "header")

    def __init__(self, signer: DkimSigner, names: Sequence[bytes], signed_at: int) -> None:
        # One more From than there is, so that the signature is invalid if someone adds another.
        covered = b":".join((*names, _FROM))
        self.header = (
            f"DKIM-Signature: v=1; a={signer.algorithm}-sha256; c=relaxed/simple;\r\n"
            f" d={signer.domain};\r\n s={signer.selector}; t={signed_at};\r\n".encode("ascii")
            + b" h=%b;\r\n bh=%%b;\r\n b=%%b\r\n" % _folded_names(covered)
        )
        """With places for the hash of the body and the signature."""
        before = self.header.removesuffix(b"%b\r\n").partition(b":")[2]
        self.canonical = b"dkim-signature:%b" % _WHITE.sub(b" ", before).strip(b" ")
        """Canonicalised, with an empty signature and without a line end."""


def _signing(private_key: PrivateKeyTypes) -> tuple[DkimAlgorithm, Callable[[bytes], bytes]]:
    from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
    from cryptography.hazmat.primitives.hashes import SHA256

    if isinstance(private_key, ed25519.Ed25519PrivateKey):
        return DkimAlgorithm.ED25519, private_key.sign  # RFC 8463 3: it signs the digest
    if not isinstance(private_key, rsa.RSAPrivateKey):
        raise TypeError(f"not a key for DKIM: {type(private_key).__name__}")
    scheme, algorithm = padding.PKCS1v15(), Prehashed(SHA256())
    rsa_key = private_key
    return DkimAlgorithm.RSA, lambda digest: rsa_key.sign(digest, scheme, algorithm)


def _body_digest(mail: bytes, start: int) -> bytes:
    """Return the hash of a body as RFC 6376 3.4.3 says: with one line end after the last line."""
    end = len(mail)
    while end - 2 >= start and mail.endswith(b"\r\n", start, end):
        end -= 2
    digest = hashlib.sha256(memoryview(mail)[start:end])
    digest.update(b"\r\n")
    return digest.digest()


def _folded(signature: bytes) -> bytes:
    return b"\r\n ".join(
        signature[start : start + _LINE] for start in range(0, len(signature), _LINE)
    )


def _folded_names(names: bytes) -> bytes:
    lines = [b""]
    for name in names.split(b":"):
        if lines[-1] and len(lines[-1]) + len(name) > _LINE:
            lines.append(b"")
        lines[-1] += name + b":"
    return b"\r\n ".join(lines).removesuffix(b":")
