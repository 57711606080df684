"""Proof of work for sign-ups (ALTCHA): a browser solves a small task before it may sign up.

A task is signed and carries the names of the form's lists and when it expires, so nothing is stored
for it. Each solution is accepted once: used ones are rows of the table of sign-up limits until they
expire.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from postroom import clock
from postroom.domain.audience.lists.lists import ListName
from postroom.encryption import Keyring
from postroom.services.audience.signup.signup_limits import SignupLimits

if TYPE_CHECKING:
    import altcha

_ALGORITHM: Final = "PBKDF2/SHA-256"
# 256 tries of 5,000 iterations on average: about a second of a phone, and 2 ms to check.
_COST: Final = 5000
_KEY_PREFIX: Final = "00"
_VALID: Final = timedelta(minutes=20)
_LONGEST: Final = 12_000  # with the names of as many lists as a form can offer
_LISTS, _BETWEEN = "list", ","


class ProofService:
    def __init__(
        self,
        limits: SignupLimits,
        keyring: Keyring,
        clock: Callable[[], datetime] = clock.now,
    ) -> None:
        self._limits = limits
        self._keyring = keyring
        self._clock = clock

    def challenge(self, lists: Sequence[ListName]) -> dict[str, Any]:
        """Return a new task for a sign-up to one or several of these lists."""
        import altcha

        return altcha.create_challenge(
            _ALGORITHM,
            _COST,
            key_prefix=_KEY_PREFIX,
            expires_at=self._clock() + _VALID,
            data={_LISTS: _BETWEEN.join(lists)},
            hmac_secret=self._key(),
        ).to_dict()

    async def accept(self, lists: Sequence[ListName], solution: str) -> bool:
        """Return whether this is the solution of one of our tasks for all of these lists that has
        not expired; it is accepted once."""
        parameters = _parameters(solution)
        if parameters is None or not set(lists) <= _lists_of(parameters):
            return False
        import altcha

        # The signature covers all parameters, so that nobody can choose an easier task.
        if not altcha.verify_solution(solution, self._key()).verified:
            return False
        until = datetime.fromtimestamp(parameters.expires_at or 0, UTC)
        return await self._limits.use_once(f"proof {parameters.nonce}", until)

    def _key(self) -> bytes:
        return self._keyring.signing_key("proof of work for sign-ups")


def _parameters(solution: str) -> altcha.ChallengeParameters | None:
    """Return the task that a solution is for, not checked yet; None if it cannot be read."""
    if not solution or len(solution) > _LONGEST:
        return None
    import altcha

    try:
        payload = json.loads(base64.b64decode(solution, validate=True))
        return altcha.Challenge.from_dict(payload["challenge"]).parameters
    except (binascii.Error, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _lists_of(parameters: altcha.ChallengeParameters) -> set[str]:
    names = (parameters.data or {}).get(_LISTS)
    return set(names.split(_BETWEEN)) if isinstance(names, str) else set()
