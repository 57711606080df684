"""Planted bugs: changes of the product that the simulation must find.

Each is a mistake that somebody could make. It replaces a piece of the product; everything else
runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.messages.messages import Message
from postroom.domain.messages.page_emails import EmailState
from postroom.mail.mailing import Recipient
from postroom.scheduler.completion import Completion
from postroom.scheduler.fan_out import FanOut
from postroom.scheduler.wave_plans import WavePlans
from postroom.sender import policy
from postroom.sender.confirmations import Confirmations
from postroom.sender.journal.journal import JournalledSending
from postroom.sender.pages import settler
from postroom.sender.pages.claims import Claims
from postroom.sender.pages.group_claims import Recipients
from postroom.services import entities
from postroom.services.messages.message_states import MessageStates
from postroom.services.messages.sending.page_rows import OWNER, UNTIL, Page, page_from, page_row
from postroom.services.queues.attempts import AttemptFailure
from postroom.services.queues.delivery import QueueService
from postroom.services.queues.dispositions import Disposition, DispositionResult
from postroom.storage import Batch, Finish, QueueMessage, Replace, Step, ne


def delete_the_work_item_before_settling() -> None:
    steps = settler._steps
    settler._steps = lambda group: sorted(
        steps(group), key=lambda step: not isinstance(step, Finish)
    )


def settle_without_the_etag() -> None:
    def steps(group: Sequence[settler._Write]) -> list[Step]:
        pages = Batch(entities.PAGES, [Replace(each.entity) for each in group])
        items = [each.item for each in group if each.item is not None]
        return [pages, Finish(items)] if items else [pages]

    settler._steps = steps


def renew_a_lost_claim() -> None:
    async def renew(self: Claims, pages: Sequence[Page]) -> dict[int, Page]:
        changed = await self._pages.table.merge_where(
            entities.pages_partition(pages[0].day, pages[0].ref),
            [page_row(page.number) for page in pages],
            {UNTIL: self._until(), OWNER: self._owner},
            ne(OWNER, "nobody"),
        )
        return {int(row): page_from(entity) for row, entity in changed.items()}

    _replace(Claims, "renew", renew)


def resend_at_once_without_limit() -> None:
    _replace(policy, "MOST_COPIES", 1000)
    _replace(policy, "_UNANSWERED_PAUSES", (timedelta(0),) * 1000)


def forget_the_mark_of_a_doubt() -> None:
    unanswered = policy.Judge.unanswered

    def forgetful(self: policy.Judge, reply: str, before: EmailState) -> EmailState:
        return msgspec.structs.replace(unanswered(self, reply, before), unanswered=0)

    _replace(policy.Judge, "unanswered", forgetful)


def hand_over_without_a_mark_in_the_journal() -> None:
    _replace(JournalledSending, "handing_over", lambda self, position: None)


def take_a_page_over_without_doubt() -> None:
    take_over = Claims.take_over

    async def trusting(self: Claims, page: Page, *, doubtful: bool, **options: Any) -> Page:
        return await take_over(self, page, doubtful=False, **options)

    _replace(Claims, "take_over", trusting)


def write_to_people_who_have_left() -> None:
    async def allowed(
        self: Recipients,
        name: ListName,
        addresses: Collection[Address],
        planned_guid: Callable[[Address], SubscriberGuid],
        kind: object,
    ) -> dict[Address, Recipient]:
        return {address: Recipient(address, planned_guid(address)) for address in addresses}

    _replace(Recipients, "allowed", allowed)


def plan_from_the_beginning_after_a_crash() -> None:
    finish = FanOut.finish_interrupted

    async def forgetful(self: FanOut, message: Message) -> tuple[Message, None]:
        return (await finish(self, message))[0], None

    _replace(FanOut, "finish_interrupted", forgetful)


def forget_who_is_in_an_earlier_wave() -> None:
    async def earlier(self: WavePlans, message: Message, end: int, check: object) -> set[int]:
        return set()

    _replace(WavePlans, "_earlier", earlier)


def leave_parked_pages_alone() -> None:
    async def put_back(self: Completion, message: Message, limit: int = 100) -> int:
        return 0

    _replace(Completion, "_put_back_parked", put_back)


def edit_what_is_being_sent() -> None:
    async def check(self: MessageStates, message: Message) -> None:
        return

    _replace(MessageStates, "check_unsent", check)


def retry_jobs_for_ever() -> None:
    async def failed(
        self: QueueService, message: QueueMessage, app: object, failure: AttemptFailure
    ) -> DispositionResult:
        await self._store.queue(message.queue).release(message, count_attempt=False)
        return DispositionResult(Disposition.RELEASED, message.queue)

    _replace(QueueService, "failed", failed)


def forget_confirmations_without_a_reply() -> None:
    settle = Confirmations._settle

    async def careless(self: Confirmations, message: Any, subscriber: Any, result: Any) -> None:
        if result is None or result.kind != "accepted":
            await self._queue.delete(message)
            return
        await settle(self, message, subscriber, result)

    _replace(Confirmations, "_settle", careless)


def _replace(owner: object, name: str, value: object) -> None:
    getattr(owner, name)  # it must exist
    setattr(owner, name, value)


BUGS: dict[str, Callable[[], None]] = {
    bug.__name__.replace("_", "-"): bug
    for bug in (
        delete_the_work_item_before_settling,
        settle_without_the_etag,
        renew_a_lost_claim,
        resend_at_once_without_limit,
        forget_the_mark_of_a_doubt,
        hand_over_without_a_mark_in_the_journal,
        take_a_page_over_without_doubt,
        write_to_people_who_have_left,
        plan_from_the_beginning_after_a_crash,
        forget_who_is_in_an_earlier_wave,
        leave_parked_pages_alone,
        edit_what_is_being_sent,
        retry_jobs_for_ever,
        forget_confirmations_without_a_reply,
    )
}
