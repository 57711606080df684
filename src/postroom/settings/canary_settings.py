"""The settings of canaries: the first recipients of large messages."""

from __future__ import annotations

from datetime import timedelta

from postroom.settings import parsing
from postroom.settings.declaring import SettingGroup, setting


class CanarySettings(SettingGroup, frozen=True):
    """Large messages: who gets them first, and when everyone else does not."""

    above: int = setting(
        "canary_from",
        "10000",
        "A message to more recipients than this goes to some of them first (its canary), and to the"
        " rest if all is well; 0: only if its author chooses it.",
        parsing.whole_number(1, 1_000_000_000, also=0),
    )
    share: float | None = setting(
        "canary_share",
        "1",
        "The percentage of the recipients who get a message first.",
        parsing.percentage,
    )
    wait: timedelta = setting(
        "canary_wait",
        "10m",
        "How long the rest wait after these emails were sent (0s to 24h).",
        parsing.duration("0s", "24h"),
    )
    refusals: float | None = setting(
        "canary_refusals",
        "5",
        "The rest do not get the message if more than this percentage of the first emails, and at"
        " least 3, were refused or bounced; 0: no limit.",
        parsing.percentage,
    )
    rejections: float | None = setting(
        "canary_rejections",
        "1",
        "The same limit for bounces because of our reputation or the content.",
        parsing.percentage,
    )
    complaints: float | None = setting(
        "canary_complaints",
        "0.3",
        "The same limit for emails that were marked as spam.",
        parsing.percentage,
    )
