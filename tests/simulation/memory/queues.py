"""The queues of the engine in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from postroom.storage import (
    InvalidValue,
    LeaseLost,
    MessageToPut,
    QueueInfo,
    QueueMessage,
    StoredMessage,
)
from postroom.storage.checked import CheckedQueue
from tests.simulation.memory.data import (
    Connection,
    QueuedMessage,
    moment,
)


class MemoryQueue(CheckedQueue):
    def __init__(self, name: str, store: Connection) -> None:
        super().__init__(name)
        self._store = store
        self._data = store.data

    async def _put(self, messages: Sequence[MessageToPut]) -> list[str]:
        def act() -> list[str]:
            now = self._data.clock()
            queue = self._data.queues.setdefault(self.name, {})
            numbers = []
            for message in messages:
                copies, late = self._data.delivery_faults()
                number = 0
                for _ in range(copies):
                    number = self._data.number()
                    expires_at = None if message.ttl is None else now + message.ttl
                    queue[number] = QueuedMessage(
                        number,
                        message.body,
                        dict(message.properties),
                        now,
                        now + message.delay + late,
                        expires_at,
                    )
                    self._data.queued(self.name, "put", queue[number])
                numbers.append(str(number))
            self._data.ring()
            return numbers

        return await self._store.run(act)

    async def _receive(self, limit: int, lease: float) -> list[QueueMessage]:
        return await self._store.run(lambda: self._take(self.read_ready(limit), lease))

    async def _receive_by_id(self, identity: str, lease: float) -> QueueMessage | None:
        def act() -> QueueMessage | None:
            found = [each for each in self.read_ready(None) if str(each.number) == identity]
            return next(iter(self._take(found, lease)), None)

        return await self._store.run(act)

    def _take(self, messages: Sequence[QueuedMessage], lease: float) -> list[QueueMessage]:
        receipt = f"r{self._data.number()}"
        for message in messages:
            message.receipt = receipt
            message.dequeue_count += 1
            message.visible_at = self._data.clock() + lease
            self._data.queued(self.name, "received", message)
        return [self._shown(message, receipt) for message in messages]

    async def _renew(self, message: QueueMessage, lease: float) -> QueueMessage:
        def act() -> QueueMessage:
            self._leased_to(message).visible_at = self._data.clock() + lease
            return message

        return await self._store.run(act)

    async def _release(self, message: QueueMessage, delay: float, count_attempt: bool) -> None:
        def act() -> None:
            found = self._leased_to(message)
            found.visible_at = self._data.clock() + delay
            found.receipt = ""
            found.dequeue_count -= 0 if count_attempt else 1
            self._data.queued(self.name, "released", found)
            self._data.ring()

        await self._store.run(act)

    async def _move(
        self, message: QueueMessage, to: str, delay: float, properties: Mapping[str, str] | None
    ) -> str:
        def act() -> str:
            found = self._leased_to(message)
            del self._data.queues[self.name][found.number]
            found.visible_at = self._data.clock() + delay
            found.receipt = ""
            found.dequeue_count = 0
            found.properties = found.properties if properties is None else dict(properties)
            self._data.queues.setdefault(to, {})[found.number] = found
            self._data.ring()
            return message.id

        return await self._store.run(act)

    async def _delete(self, message: QueueMessage) -> None:
        def act() -> None:
            found = self._leased_to(message)
            del self._data.queues[self.name][found.number]
            self._data.queued(self.name, "deleted", found)

        await self._store.run(act)

    async def _peek(self, limit: int) -> list[QueueMessage]:
        return await self._store.run(lambda: [self._shown(m) for m in self.read_ready(limit)])

    async def _browse(self, limit: int, after: str | None) -> list[StoredMessage]:
        if after is not None and not after.isdecimal():
            raise InvalidValue(f"{after!r} is not the id of a queue message")

        def act() -> list[StoredMessage]:
            behind = [
                each
                for number, each in sorted(self._messages().items())
                if number > int(after or "0") and each.is_alive(self._data.clock())
            ]
            return [
                StoredMessage(
                    self._shown(each),
                    moment(each.visible_at),
                    None if each.expires_at is None else moment(each.expires_at),
                )
                for each in behind[:limit]
            ]

        return await self._store.run(act)

    async def info(self) -> QueueInfo:
        return await self._store.run(self.read_info)

    async def _wait(self, timeout: float) -> bool:
        return bool(await self._store.wait_for_messages([self.name], timeout=timeout))

    async def purge(self) -> None:
        await self._store.run(lambda: self._messages().clear())

    async def drop(self) -> None:
        await self._store.run(lambda: self._data.queues.pop(self.name, None))

    def read_info(self) -> QueueInfo:
        now = self._data.clock()
        alive = [each for each in self._messages().values() if each.is_alive(now)]
        ready = self.read_ready(1)
        return QueueInfo(self.name, len(alive), moment(ready[0].enqueued_at) if ready else None)

    def read_ready(self, limit: int | None) -> list[QueuedMessage]:
        """Return the messages that can be received now, next first."""
        now = self._data.clock()
        ready = [
            each
            for each in self._messages().values()
            if each.visible_at <= now and each.is_alive(now)
        ]
        return sorted(ready, key=lambda each: (each.visible_at, each.number))[:limit]

    def _messages(self) -> dict[int, QueuedMessage]:
        return self._data.queues.get(self.name, {})

    def _leased_to(self, message: QueueMessage) -> QueuedMessage:
        found = self._messages().get(int(message.id))
        if found is None or found.receipt != message.receipt:
            raise LeaseLost(
                f"message {message.id} of queue {self.name!r} is no longer leased to this receiver"
            )
        return found

    def _shown(self, message: QueuedMessage, receipt: str = "") -> QueueMessage:
        return QueueMessage(
            str(message.number),
            self.name,
            message.body,
            dict(message.properties),
            message.dequeue_count,
            moment(message.enqueued_at),
            receipt,
        )
