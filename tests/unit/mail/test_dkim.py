"""DKIM signatures, verified by dkimpy."""

import random
from base64 import b64encode

import dkim  # type: ignore[import-untyped]
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from postroom.mail.bodies.attached_files import AttachedFile
from postroom.mail.dkim import DkimSigner, MailSigner
from tests.unit.mail.mailings import mailing, recipient

_RSA = generate_private_key(65537, 2048)
_ED = Ed25519PrivateKey.generate()
_SIGNERS = (DkimSigner("example.org", "rsa1", _RSA), DkimSigner("example.org", "ed1", _ED))
_MAILS = 1_000
_WORDS = (
    "plain", "Grüße", "안녕", "😀👩‍👩‍👧‍👦", "мир", "a\tb", "two  spaces", "x" * 300,
    "=?utf-8?q?no?=", ".", "..dots",
    "trailing ", "\n", "\n\n", "\r\n \n", "From me", "", " ", "--=_boundary",
)  # fmt: skip


def records(name: bytes, timeout: int = 5) -> bytes:
    """Return the DNS record of a key."""
    keys = {
        b"rsa1": (
            "rsa",
            _RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        ),
        b"ed1": ("ed25519", _ED.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)),
    }
    selector, _, rest = name.partition(b".")
    assert rest.rstrip(b".") == b"_domainkey.example.org"
    kind, public = keys[selector]
    return f"v=DKIM1; k={kind}; p={b64encode(public).decode()}".encode()


def verified(mail: bytes) -> list[bool]:
    """Return whether each of the two signatures is valid."""
    return [_is_valid(mail, each) for each in (0, 1)]


def _is_valid(mail: bytes, number: int) -> bool:
    try:
        return bool(dkim.DKIM(mail).verify(idx=number, dnsfunc=records))
    except dkim.ValidationError:
        return False


def fuzzed(chance: random.Random) -> bytes:
    """Return a mail of random parts, signed."""

    def text(most: int) -> str:
        return " ".join(chance.choices(_WORDS, k=chance.randrange(most)))

    def line(most: int) -> str:
        return " ".join(text(most).split())

    files = [
        AttachedFile("f.bin", "application/octet-stream", chance.randbytes(chance.randrange(3000)))
        for _ in range(chance.choice((0, 0, 0, 1, 2)))
    ]
    compiled = mailing(
        subject=line(12) or "s",
        text=f"{text(40)}x{text(4)}",
        html=chance.choice((None, f"<p>{text(30)}</p>", "<p></p>" + "\n" * 9)),
        from_name=line(6),
        reply_to=chance.choice(("", "answers@example.org")),
        attachments=files,
    )
    composed = compiled.mail(recipient(chance.choice(("anna@example.org", "ünal@exämple.org"))))
    return MailSigner(_SIGNERS, 1_790_000_000).signatures(composed) + composed


def test_another_implementation_verifies_a_thousand_emails_of_all_kinds() -> None:
    chance = random.Random(20261116)
    for number in range(_MAILS):
        mail = fuzzed(chance)
        assert verified(mail) == [True, True], (number, mail)


@pytest.mark.parametrize(
    "header",
    [
        *("From", "Reply-To", "To", "Subject", "Date", "Message-ID", "MIME-Version"),
        *("Content-Type", "Content-Transfer-Encoding", "List-Id", "List-Unsubscribe"),
        *("List-Unsubscribe-Post", "Feedback-ID"),
    ],
)
def test_a_changed_header_is_noticed(header: str) -> None:
    compiled = mailing(html=None, reply_to="answers@example.org")
    composed = compiled.mail(recipient("anna@example.org"))
    mail = MailSigner(_SIGNERS, 1_790_000_000).signatures(composed) + composed
    assert verified(mail) == [True, True]
    name = f"\r\n{header}: ".encode()
    assert mail.count(name) == 1
    assert verified(mail.replace(name, name + b"x")) == [False, False]
    assert verified(mail.replace(name, b"\r\nX-Renamed: ")) == [False, False]


def test_a_changed_body_or_a_second_from_is_noticed() -> None:
    mail = fuzzed(random.Random(2))
    for spoiled in (mail[:-9] + b"?" + mail[-8:], b"From: <eve@example.net>\r\n" + mail):
        assert verified(spoiled) == [False, False]


def test_empty_bodies_and_several_line_ends_are_canonicalised() -> None:
    head = b"From: a@example.org\r\nSubject:  folded\r\n\t  twice \r\nX-Other: 1\r\n\r\n"
    for body in (b"", b"\r\n", b"\r\n\r\n\r\n", b"a\r\n\r\n\r\n", b" \r\n", b"a"):
        signed = MailSigner(_SIGNERS, 1_790_000_000).signatures(head + body) + head + body
        assert verified(signed) == [True, True]


def test_the_headers_of_the_next_recipient_are_their_own() -> None:
    """The signer keeps canonical headers of the email before."""
    compiled, signer = mailing(), MailSigner(_SIGNERS, 1_790_000_000)
    for address in ("anna@example.org", "bert@example.org", "anna@example.org"):
        mail = compiled.mail(recipient(address))
        assert verified(signer.signatures(mail) + mail) == [True, True]
