"""Passwords that are hashed at the least cost: what hashing protects from is not in a test."""

import argon2
import pytest

from postroom.services.accounts import passwords


@pytest.fixture
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 ms of hashing less for each user and each login."""
    cheap = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_HASHER", cheap)
    monkeypatch.setattr(passwords, "_NOBODY", passwords._no_hash())
