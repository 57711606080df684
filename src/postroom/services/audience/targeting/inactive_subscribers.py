"""Subscribers who have neither opened nor clicked anything for a while: won back, or removed.

Only those who agree to personal tracking are known (`engaged_subscribers.py`). Who is inactive is
decided by a rule, each time someone asks.
"""

from __future__ import annotations

from typing import Final

from postroom.domain.audience.lists.lists import MailingList
from postroom.domain.audience.segments import Segment
from postroom.domain.errors import NoSuch
from postroom.domain.messages.messages import FINAL, Message, MessageFormat
from postroom.domain.messages.refs import is_ref
from postroom.domain.messages.tracking import Track
from postroom.services.audience.bulk_changes import BulkAction, BulkReport
from postroom.services.audience.lists import ListService
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.audience.targeting.segment_changes import change_segment
from postroom.services.audience.targeting.segments import SegmentService
from postroom.services.messages.drafts.composing import ComposingService
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.lifecycle import MessageService

PERIODS: Final = (90, 180, 365)
"""Days for which someone has to be inactive."""
DAYS: Final = 180

_SUBJECT: Final = "Would you like to keep hearing from us?"
_BODY: Final = """\
Hello,

You have not opened our emails for a while. We would rather write only to people who enjoy reading
them.

[Yes, keep me subscribed]({website})

If we do not hear from you, we will remove your address in four weeks. You can also
[unsubscribe now]({{{{ unsubscribe_url }}}}).
"""


class InactiveSubscribers:
    def __init__(
        self,
        lists: ListService,
        subscriptions: SubscriptionService,
        segments: SegmentService,
        messages: MessageService,
        composing: ComposingService,
    ) -> None:
        self._lists = lists
        self._subscriptions = subscriptions
        self._messages = messages
        self._segments = segments
        self._composing = composing

    async def win_back(self, list_name: str, days: int, who: str) -> Message:
        """Create a draft to everyone on a list who is inactive when it is sent. It is tracked per
        person, so that those who follow its link are active again. `NoSuch` list."""
        mailing_list = await self._lists.get(list_name)
        name, rule = segment_of(days), rule_of(days)
        await self._segments.keep(list_name, name, rule)
        return await self._composing.create(
            ContentChange(
                list_name=list_name,
                segment=name,
                subject=_SUBJECT,
                format=MessageFormat.MARKDOWN,
                body=_BODY.format(website=_website(mailing_list)),
                track=Track.PERSONAL.value,
            ),
            who,
        )

    async def segment(self, list_name: str, days: int, received: str | None = None) -> Segment:
        """Return everyone on a list who is inactive, as a segment that is not stored: all of them,
        or only recipients of a finished message that was meant to win them back. `NoSuch` list or
        message."""
        mailing_list = await self._lists.get(list_name)
        after = ""
        if received is not None:
            if not is_ref(received):
                raise NoSuch("message", received)
            message = await self._messages.get(received)
            is_ours = (message.list_name, message.segment) == (mailing_list.name, segment_of(days))
            if not is_ours or message.status not in FINAL:
                raise NoSuch("message", received)
            after = message.ref
        return Segment(mailing_list.name, "inactive", rule_of(days, after))

    async def remove(self, segment: Segment) -> BulkReport:
        """Remove everyone in such a segment from its list. Interrupted, it is finished by repeating
        it."""
        return await change_segment(self._segments, self._subscriptions, segment, BulkAction.REMOVE)


def rule_of(days: int, after: str = "") -> str:
    """Return the rule that selects subscribers who have been inactive for this long: everyone, or
    only recipients of a message, such as a win-back message."""
    rule = f"inactive for {days} days"
    return f"{rule} and received {after}" if after else rule


def segment_of(days: int) -> str:
    """Return the name of the segment to which a message that wins back is sent."""
    return f"inactive-{days}-days"


def _website(mailing_list: MailingList) -> str:
    """Return where the link of a draft leads until its author changes it."""
    return mailing_list.website or f"https://{mailing_list.from_address.rpartition('@')[2]}"
