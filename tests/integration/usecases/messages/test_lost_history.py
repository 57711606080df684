"""What a sender does when the store's mark is behind."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom.domain.messages.messages import MessageStatus
from postroom.sender.faults.lost_history import LostHistory
from postroom.sender.sender_settings import SenderSettings
from postroom.services.events import Severity
from postroom.services.operations.store_history import StoreHistory
from postroom.storage import Entity, KeyRange, Server, Store
from postroom.wiring import Services
from tests.integration.usecases.making import fill, make_list, schedule
from tests.integration.usecases.pages import fan_out_whole


async def set_back(store: Store, by: timedelta) -> None:
    """Set the mark back, as in a store that has lost so much."""
    table = store.table("storeinfo")
    [mark] = (await table.query(KeyRange.only("marks"))).entities
    await table.upsert(Entity(mark.partition, mark.row, {"At": datetime.now(UTC) - by}))


@pytest.mark.parametrize(
    ("missing", "status"), [(20, MessageStatus.PROCESSING), (80, MessageStatus.PAUSED)]
)
async def test_messages_pause_if_the_store_has_lost_more_than_senders_remember(
    services: Services, store: Store, tmp_path: Path, missing: int, status: MessageStatus
) -> None:
    name = await make_list(services)
    await fill(store, name, 3)
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    history = StoreHistory(Services(store), tmp_path)
    settings = SenderSettings("http://localhost", tmp_path / "journals")
    lost = LostHistory(Services(store), "me", settings, history, lambda _: False)
    assert await history.advance()
    await lost.watch(is_behind=False)
    assert await lost.free_at() is None

    await set_back(store, timedelta(seconds=missing))
    assert not await history.advance()
    await lost.watch(is_behind=True)

    found = await services.messages.get(message.ref)
    assert found.status is status
    assert await lost.free_at() is not None
    assert ("Resume to send it to everyone who has no record" in found.reason) is (missing > 60)
    lost.close()


async def test_a_change_of_servers_is_recorded_and_reported_once(
    services: Services, store: Store, tmp_path: Path
) -> None:
    first, restarted = Server("system 1, timeline 1", "1"), Server("system 1, timeline 1", "2")
    promoted = Server("system 1, timeline 2", "3")
    history = StoreHistory(Services(store), tmp_path)
    assert await history.server() is None
    for server in (first, restarted, promoted, promoted):
        await history.record_server(server)
        assert await history.server() == server
    [event] = (await services.events.page(least=Severity.WARNING)).events
    assert "timeline 1 before" in event.text
    assert "timeline 2 now" in event.text
