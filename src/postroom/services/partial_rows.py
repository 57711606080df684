"""Parts of the rows of subscribers, for those who read many: scheduler, senders and rules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import SubscriberGuid, with_source


class SubscriberRow(msgspec.Struct, frozen=True, gc=False):
    """The properties of an `email:` row that scheduler and senders need."""

    SubscriberGUID: SubscriberGuid
    Verified: bool = False
    Blocked: str = ""
    EmailAddress: str = ""
    MergedGUIDs: str = ""
    PausedUntil: datetime | None = None

    @property
    def may_receive(self) -> bool:
        """Whether an email may be planned or sent now."""
        is_paused = self.PausedUntil is not None and self.PausedUntil > clock.now()
        return self.Verified and not self.Blocked and not is_paused


class ConsentRow(SubscriberRow, frozen=True, gc=False):
    """The same, with whether the subscriber agreed to personal tracking."""

    Tracking: bool = False


class EngagedRow(msgspec.Struct, frozen=True, gc=False):
    """The properties of an `email:` row that rules about opens and clicks need."""

    SubscriberGUID: SubscriberGuid
    MergedGUIDs: str = ""
    Tracking: bool = False
    TrackingSince: datetime | None = None
    LastOpenedAt: datetime | None = None
    LastClickedAt: datetime | None = None

    @property
    def guids(self) -> tuple[SubscriberGuid, ...]:
        merged = self.MergedGUIDs.split(",") if self.MergedGUIDs else ()
        return (self.SubscriberGUID, *map(SubscriberGuid, merged))


_decode_attributes: Final = msgspec.json.Decoder(dict[str, Any]).decode


class AttributeRow(SubscriberRow, frozen=True, gc=False):
    """The same, with what is known about the subscriber."""

    CreatedAt: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    Attributes: str = ""
    FormerAddresses: str = ""
    Source: str = ""

    @property
    def known(self) -> Mapping[str, Any]:
        """The values of its fields."""
        attributes = _decode_attributes(self.Attributes) if self.Attributes else {}
        return with_source(attributes, self.Source)
