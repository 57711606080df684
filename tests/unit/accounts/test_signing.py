"""Values that visitors carry for us, and what they are signed with."""

from __future__ import annotations

import time

import pytest
from itsdangerous import URLSafeTimedSerializer

from postroom.web.requests.cookies import CsrfKind, Signer, csrf_token

SECRET = b"a secret key of the tests, long enough"


def test_signatures_are_made_with_sha_256() -> None:
    signed = Signer(SECRET, "setup").sign(["ann", 1])
    value, _, signature = signed.rpartition(".")
    assert len(signature) == 43  # 256 bits in base64
    assert Signer(SECRET, "setup").read(signed, max_age=60) == ["ann", 1]
    assert Signer(SECRET, "other").read(signed, max_age=60) is None
    assert Signer(SECRET, "setup").read(f"{value}.x", max_age=60) is None


def test_a_signature_with_sha_1_is_not_accepted() -> None:
    old = URLSafeTimedSerializer(SECRET, salt="postroom setup").dumps("first administrator")
    assert Signer(SECRET, "setup").read(str(old), max_age=60) is None


def test_a_signed_value_is_accepted_until_its_age_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    signed, now = Signer(SECRET, "setup").sign("x"), time.time()
    for later, value in ((59, "x"), (62, None)):
        monkeypatch.setattr("itsdangerous.timed.time.time", lambda later=later: now + later)
        assert Signer(SECRET, "setup").read(signed, max_age=60) == value


def test_tokens_of_sessions_and_of_visitors_are_apart() -> None:
    assert csrf_token(SECRET, CsrfKind.SESSION, "x") != csrf_token(SECRET, CsrfKind.VISITOR, "x")
