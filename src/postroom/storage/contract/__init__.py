"""The store: tables, queues, blobs and leases. All of Postroom is written against this package.

Three engines implement it, chosen by URL (`open_store`): SQLite, PostgreSQL and Azure Storage.
These promises hold for all of them:

- **Durable.** What has been written when a call returns survives a crash of the process and of the
  machine.
- **All or nothing.** A write that raises an error has written nothing, with two exceptions:
  `Queue.put_many`, and `StoreUnavailable`, after which the outcome of the last write is unknown:
  read, or repeat it. Every use of the store in Postroom can be repeated.
- **Checked.** What not every engine could store is refused by all of them with an `InvalidRequest`,
  before anything is sent to the engine (`errors.py` has the tree of errors, `limits.py` the sizes).
- **Created when needed.** The first write creates a table, queue or container. Reading before that
  finds nothing and is not an error.
- **Concurrent.** Any number of tasks, processes and (except for SQLite) machines may use one store.
  One `Store` object belongs to one event loop.
- **Cancelled calls** may or may not have taken effect, as if the process had died.
"""
