"""Tokens of tracked links: made like envelope senders, with separate keys.

With `aggregate` tracking, the emails of a message have one token in common, which stands for
nobody. With `personal` tracking, those who agreed to it have personal tokens, and all others share
that one. Each is bound to the message, so it cannot be used for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.refs import MessageRef
from postroom.mail.bounces.envelope_tokens import EnvelopeSigner, EnvelopeTokens, is_token

PURPOSE: Final = "tracked links"
"""What the signing keys are derived for."""

EVERYBODY: Final = SubscriberGuid("00000000-0000-0000-0000-000000000000")
"""Stands for all recipients: no subscriber has this GUID."""


class TrackedLink(msgspec.Struct, frozen=True):
    """What a token was made for: a message, and the subscriber if it is personal."""

    ref: MessageRef
    guid: SubscriberGuid | None = None


class PersonalTokens:
    """The tokens in the links of one message."""

    def __init__(self, tokens: EnvelopeTokens) -> None:
        self._tokens = tokens
        self.of_everybody: Final = tokens.token(EVERYBODY)

    def tokens(self, guids: Sequence[SubscriberGuid], agreed: Sequence[bool]) -> list[bytes]:
        """Return the tokens of subscribers, made at once: everyone's for those who did not
        agree."""
        those = [guid for guid, does in zip(guids, agreed, strict=True) if does]
        personal = [each.encode() for each in self._tokens.tokens(those)] if those else []
        if len(those) == len(guids):
            return personal
        everybody, rest = self.of_everybody.encode(), iter(personal)
        return [next(rest) if does else everybody for does in agreed]

    def token(self, guid: SubscriberGuid, *, agreed: bool) -> str:
        """Return the token of a subscriber who agreed, or of everyone."""
        return self._tokens.token(guid) if agreed else self.of_everybody


class TrackingTokens:
    """Makes and reads tokens. Tokens of former keys can still be read."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._signer = EnvelopeSigner(keys)

    def of_everybody(self, ref: MessageRef) -> str:
        """Return the token that all emails of a message share."""
        return self._signer.of_message(ref).token(EVERYBODY)

    def of_message(self, ref: MessageRef) -> PersonalTokens:
        """Return the maker of the tokens of a message's recipients."""
        return PersonalTokens(self._signer.of_message(ref))

    def read(self, token: str) -> TrackedLink | None:
        """Return the link and recipient of a token; None if it is not genuine."""
        identity = self._signer.read(token) if is_token(token) else None
        if identity is None:
            return None
        return TrackedLink(identity.ref, None if identity.guid == EVERYBODY else identity.guid)
