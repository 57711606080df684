"""Tokens of tracked links: made like envelope senders, with keys of their own.

With `aggregate` tracking, the emails of a message have one token in common, which stands for
nobody. It is bound to the message, so it cannot be used for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postroom.domain.audience.lists import SubscriberGuid
from postroom.domain.messages.refs import MessageRef
from postroom.mail.bounces.envelope_tokens import EnvelopeSigner, is_token

PURPOSE: Final = "tracked links"
"""What the signing keys are derived for."""

EVERYBODY: Final = SubscriberGuid("00000000-0000-0000-0000-000000000000")
"""Stands for all recipients: no subscriber has this GUID."""


class TrackingTokens:
    """Makes and reads tokens. Former keys still read."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._signer = EnvelopeSigner(keys)

    def of_everybody(self, ref: MessageRef) -> str:
        """Return the token that all emails of a message share."""
        return self._signer.of_message(ref).token(EVERYBODY)

    def read(self, token: str) -> MessageRef | None:
        """Return the message that a token was made for; None if it is not genuine."""
        identity = self._signer.read(token) if is_token(token) else None
        return identity.ref if identity is not None and identity.guid == EVERYBODY else None
