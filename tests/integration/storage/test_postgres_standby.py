"""A standby takes over, while connections to it are open."""

from postroom.storage import Entity, open_store
from tests.services.stores.postgres import running_postgres
from tests.services.waiting import until


async def test_a_write_to_a_promoted_standby_notices_the_new_server_before_it_returns() -> None:
    """Even if its connection is from before the promotion, when the server could only be read: who
    takes a page must know by then that records of it may be missing."""
    with running_postgres() as postgres:
        async with await open_store(postgres.create_database()) as store:
            table = store.table("pages")
            await table.insert(Entity("message", "000001", {"Owner": ""}))
            before = store.server
            postgres.back_up()
            postgres.fail_over_to_standby()

            async def is_read() -> bool:
                return await table.get("message", "000001") is not None

            await until(is_read, "the standby is read")
            assert store.server == before
            postgres.promote()
            await table.merge(Entity("message", "000001", {"Owner": "sender"}))

            assert store.server != before
            assert store.server.history.endswith("timeline 2")
