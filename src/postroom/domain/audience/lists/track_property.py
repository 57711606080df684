"""Whether messages to a list measure opens and clicks, and what their links say to websites."""

from __future__ import annotations

from typing import Final

from postroom.domain.audience.lists.list_property import Input, ListProperty, line
from postroom.domain.messages.tracking import Track, parse_track

TRACK_PROPERTY: Final = ListProperty(
    name="track",
    stored_as="Track",
    label="Opens and clicks",
    help="Whether messages to this list measure opens and clicks, unless a message says otherwise."
    " Aggregate counts them without identifying anyone. Personal also records who, but only for"
    " subscribers who agreed to it and have not withdrawn their consent.",
    check=lambda text: parse_track(text).value,
    default=Track.OFF.value,
    input=Input.CHOICE,
    choices=tuple(map(str, Track)),
    example="aggregate",
    restore=lambda stored: stored if stored in set(Track) else Track.OFF.value,
)

UTM_PROPERTY: Final = line(
    "utm_source",
    100,
    required=False,
    stored_as="UtmSource",
    label="UTM source",
    help="The source in links to websites, for web analytics. The medium is email, and the campaign"
    " is the day and the subject. Links that have UTM parameters stay as they are. If empty, none"
    " are added.",
    example="newsletter",
)
