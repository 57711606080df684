"""How a message is sent: everything except its content and its audience."""

from __future__ import annotations

from typing import Final

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track, parse_track_choice
from postroom.domain.messages.waves.canaries import check_waves, parse_canary

_FIXED: Final = ("track", "canary", "local_time")
"""What stays once the recipients are planned."""


class SendingOptions(msgspec.Struct, frozen=True):
    """Whether opens and clicks are measured (None leaves it to the list), whether the message
    appears in the web archive, its canary, and whether it is sent by local time."""

    track: Track | None = None
    published: bool = False
    canary: str = ""
    local_time: bool = False


PLAIN: Final = SendingOptions()


class OptionsChange(msgspec.Struct, frozen=True):
    """The options that an edit changes; None leaves them. An empty `track` leaves it to the list,
    and an empty `canary` to the setting."""

    track: str | None = None
    published: bool | None = None
    canary: str | None = None
    local_time: bool | None = None


UNCHANGED: Final = OptionsChange()


def checked_options(options: SendingOptions) -> SendingOptions:
    """Return the options of a message as they are stored. `Invalid`."""
    check_waves(options.canary, local_time=options.local_time)
    return msgspec.structs.replace(options, canary=parse_canary(options.canary))


def edited_options(old: Message, change: OptionsChange) -> SendingOptions:
    """Return the options of a message after an edit. `Invalid`, also for what can no longer be
    changed because the recipients are planned."""
    new = SendingOptions(
        old.track if change.track is None else parse_track_choice(change.track),
        old.published if change.published is None else change.published,
        old.canary if change.canary is None else parse_canary(change.canary),
        old.local_time if change.local_time is None else change.local_time,
    )
    for name in _FIXED:
        if old.queued_at is not None and getattr(new, name) != getattr(old, name):
            raise Invalid(name, "can no longer be changed: the recipients are already prepared")
    check_waves(new.canary, local_time=new.local_time)
    return new
