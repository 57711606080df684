"""Signed envelope senders: short, genuine or nothing, and readable after a change of the key."""

from __future__ import annotations

import pytest

from postroom.domain.audience.lists.lists import new_guid
from postroom.domain.messages.refs import MessageRef, new_ref
from postroom.mail.bounces.envelope_tokens import (
    HEADER,
    EnvelopeSigner,
    FoundMessageId,
    find_message_ids,
    is_token,
)
from tests.unit.mail.mailings import mailing, recipient

KEY, OLD_KEY = b"k" * 32, b"o" * 32
DOMAIN = "bounce.example.com"


def test_a_token_survives_folding_prefixes_and_quotation() -> None:
    signer = EnvelopeSigner([KEY], domain=DOMAIN)
    for ref in (new_ref(), MessageRef("0" * 18), MessageRef("9" * 18)):
        for guid in (new_guid() for _ in range(50)):
            tokens = signer.of_message(ref)
            sender = tokens.sender(tokens.token(guid))
            local_part = sender.removesuffix(f"@{DOMAIN}")
            assert len(local_part) == 47
            assert is_token(local_part)
            assert guid.replace("-", "")[:8] not in sender
            for text in (sender.upper(), f"prvs=0123456789={sender}", f"<{sender}>\nsaid: 550"):
                assert signer.read(text) == (ref, guid)


def test_a_changed_token_is_refused_wherever_it_was_changed() -> None:
    signer = EnvelopeSigner([KEY], domain=DOMAIN)
    token = signer.of_message(new_ref()).token(new_guid())
    for position in range(1, 47):
        other = "a" if token[position] != "a" else "b"
        assert signer.read(token[:position] + other + token[position + 1 :]) is None
    assert EnvelopeSigner([OLD_KEY]).read(token) is None


def test_tokens_made_together_are_those_made_one_by_one() -> None:
    tokens, guids = EnvelopeSigner([KEY]).of_message(new_ref()), [new_guid() for _ in range(101)]
    assert tokens.tokens(guids) == [tokens.token(each) for each in guids]
    assert tokens.tokens([]) == []


def test_a_token_of_a_former_key_is_still_read() -> None:
    ref, guid = new_ref(), new_guid()
    token = EnvelopeSigner([OLD_KEY]).of_message(ref).token(guid)
    assert EnvelopeSigner([KEY, OLD_KEY]).read(token) == (ref, guid)


def test_the_email_has_the_token_and_a_message_id_that_only_we_can_make() -> None:
    ref, guid = new_ref(), new_guid()
    signer = EnvelopeSigner([KEY], domain=DOMAIN, provider_headers={"X-Custom": '{"id":"TOKEN"}'})
    tokens = signer.of_message(ref)
    signed, ann = mailing(ref=ref, envelope=tokens), recipient(guid=guid)
    mail = signed.mail(ann).decode()
    assert f"\r\n{HEADER}: {tokens.token(guid)}\r\n" in mail
    assert f'\r\nX-Custom: {{"id":"{tokens.token(guid)}"}}\r\n' in mail
    assert signer.read(mail) == (ref, guid)
    (found,) = find_message_ids(signed.message_id(ann))
    assert found.ref == ref
    assert signer.is_message_id(found, "contoso1", ann.address)
    assert not signer.is_message_id(found, "contoso1", "bob@example.com")
    without_key = mailing(ref=ref).message_id(ann)
    assert not signer.is_message_id(find_message_ids(without_key)[0], "contoso1", ann.address)


def test_mail_without_bounce_settings_is_unchanged() -> None:
    mail = mailing().mail(recipient())
    assert HEADER.encode() not in mail


@pytest.mark.parametrize("text", ["", "b" * 47 + "9", "b" * 46, "x" + "a" * 46, "b" * 5000])
def test_an_invalid_token_identifies_nobody(text: str) -> None:
    assert EnvelopeSigner([KEY]).read(text) is None


def test_message_ids_are_found_in_any_text() -> None:
    text = "Message-Id: <634852858215726983.0123456789abcdef01234567@example.com>"
    assert find_message_ids(text) == [
        FoundMessageId(MessageRef("634852858215726983"), "0123456789abcdef01234567")
    ]
