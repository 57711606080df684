"""What every engine can hold: the smallest of the three decides, and that is mostly Azure Storage.

https://learn.microsoft.com/azure/storage/tables/scalability-targets and
…/rest/api/storageservices/Understanding-the-Table-Service-Data-Model say the same.
"""

from __future__ import annotations

from datetime import UTC, datetime

# -- tables ----------------------------------------------------------------------------------
BATCH_OPERATIONS = 100
"""Operations in one atomic batch: Azure's entity group transaction. Hence pages of 100 emails."""

KEY_UNITS = 512
"""Azure keeps 1 KiB of UTF-16 a key; some characters take more there, see `names.key_units`."""

KEY_BYTES = 1024
"""In UTF-8: partition and row key together must fit an index entry of PostgreSQL (2,704 bytes)."""

PROPERTIES = 250
"""Azure allows 255 with its own; a few are left to the engine."""

PROPERTY_BYTES = 65_000
"""Text (in UTF-8) or bytes of one property: 64 KiB at Azure, less a mark of the engine's own."""

ENTITY_BYTES = 1_000_000
"""One entity, as `values.entity_size` measures it: 1 MiB at Azure, less such marks."""

BATCH_BYTES = 2_000_000
"""All properties of a batch: 4 MiB at Azure, in base64 and with the wrapping of each operation."""

COMPARABLE_TEXT = 1024
"""Longer text is kept, but no filter matches it: on Azure it is stored as UTF-8 bytes, because
a text property there holds only 32 Ki characters."""

FILTER_COMPARISONS = 10
"""Azure allows 15 in a query; the key range needs up to four of them."""

QUERY_ROWS = 1000
"""Entities in one answer, blobs in one listing."""

EARLIEST = datetime(1601, 1, 1, tzinfo=UTC)
"""Azure keeps no timestamp before this."""

LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
"""The last that Python can say."""

# -- queues ----------------------------------------------------------------------------------
QUEUE_MESSAGE_BYTES = 48_000
"""Body and properties: 64 KiB at Azure, less base64's third, less room for our own envelope."""

MOVED_MESSAGE_BYTES = QUEUE_MESSAGE_BYTES + 512
"""A message that is moved may have grown by what its keeper has noted in its properties."""

RECEIVE_MESSAGES = 32
"""Messages in one receive or peek."""

QUEUE_SECONDS = 7 * 24 * 3600.0
"""The longest lease and the longest delay of a queue message."""

# -- leases ----------------------------------------------------------------------------------
LEASE_SECONDS = 60.0
"""The longest named lease. Azure also knows none under 15 seconds and rounds up to that."""

# -- names -----------------------------------------------------------------------------------
QUEUE_NAME_CHARACTERS = 255
BLOB_NAME_BYTES = 1024
BLOB_NAME_SEGMENTS = 254
LEASE_NAME_CHARACTERS = 100
