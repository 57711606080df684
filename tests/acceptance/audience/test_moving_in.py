"""An export of Mailchimp with 100,000 people in three states, imported twice."""

from __future__ import annotations

import io
from pathlib import Path

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.audiences import EVERYBODY
from postroom.storage import KeyRange, Store, open_store
from postroom.wiring import Services
from tests.integration.usecases.audience.imports.test_other_tools import mailchimp
from tests.integration.usecases.making import BODIES, FROM, now
from tests.integration.usecases.pages import check_pages, fan_out_whole

EACH = 33_334
NEWS, OTHER = ListName("news"), ListName("other")


async def etags(store: Store) -> int:
    """One number for all rows of the list, its unsubscribes and all suppressions, and versions of
    all of them."""
    found = 0
    ours = (("mailinglist", NEWS), ("departed", NEWS), ("suppression", None))
    for table, partition in (*ours, ("suppressionindex", None)):
        only = KeyRange() if partition is None else KeyRange.only(partition)
        async for each in store.table(table).scan(only):
            found ^= hash((table, each.row, each.etag))
    return found


async def test_the_second_import_changes_nothing_and_nobody_who_left_gets_mail(
    tmp_path: Path,
) -> None:
    data = mailchimp(EACH)
    async with await open_store(f"sqlite:///{tmp_path}/store.db") as store:
        services = Services(store)
        await services.lists.create(NEWS, "News", FROM)
        first = await services.imports.import_csv(NEWS, io.BytesIO(data))
        assert (first.added, first.unsubscribed, first.blocked) == (2 * EACH, EACH, EACH)
        assert first.suppressed == EACH
        before = await etags(store)
        second = await services.imports.import_csv(NEWS, io.BytesIO(data))
        assert second.added + second.updated + second.unsubscribed + second.rejected == 0
        assert second.suppressed == 0
        assert second.unchanged == 3 * EACH + 1
        assert await etags(store) == before
        # A plain file that vouches for everybody does not bring back those who left.
        plain = "\n".join(("email,verified", "u5@example.com,true", "c5@example.com,true"))
        third = await services.imports.import_csv(NEWS, io.BytesIO(plain.encode()))
        assert (third.added, third.rejected) == (0, 1)
        # Nor does removing and adding one of them again, and another list that vouches for all.
        await services.subscriptions.remove(NEWS, "c7@example.com")
        await services.subscriptions.add(NEWS, "c7@example.com", verified=True)
        await services.lists.create(OTHER, "Other", FROM)
        vouched = "email\n" + "".join(f"c{n}@example.com\n" for n in range(EACH))
        fourth = await services.imports.import_csv(
            OTHER, io.BytesIO(f"{vouched}new@example.com\n".encode()), verified=True
        )
        assert (fourth.added, fourth.blocked) == (EACH + 1, EACH)
        assert [
            each.address async for each in services.subscriptions.all(OTHER) if each.may_receive
        ] == ["new@example.com"]
        message = await services.messages.create(NEWS, "News", BODIES, now(), audience=EVERYBODY)
        done = await fan_out_whole(store, message.ref)
        assert await check_pages(store, done) == sorted(f"s{n}@example.com" for n in range(EACH))
