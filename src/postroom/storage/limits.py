"""What every engine can store: the smallest limit of the three, which is mostly that of Azure
Storage. See
https://learn.microsoft.com/azure/storage/tables/scalability-targets and
…/rest/api/storageservices/Understanding-the-Table-Service-Data-Model.
"""

from __future__ import annotations

from datetime import UTC, datetime

# -- tables ----------------------------------------------------------------------------------
BATCH_OPERATIONS = 100
"""Operations in one atomic batch: Azure's entity group transaction. Hence pages of 100 emails."""

KEY_UNITS = 512
"""Azure stores 1 KiB of UTF-16 per key; some characters take more space (`names.key_units`)."""

KEY_BYTES = 1024
"""In UTF-8: partition and row key together must fit an index entry of PostgreSQL (2,704 bytes)."""

PROPERTIES = 250
"""Azure allows 255 including its own; a few are reserved for the engine."""

PROPERTY_BYTES = 65_000
"""Text (in UTF-8) or bytes of one property: 64 KiB on Azure, minus a tag of the engine's own."""

ENTITY_BYTES = 1_000_000
"""One entity, as `values.entity_size` measures it: 1 MiB on Azure, minus such tags."""

BATCH_BYTES = 2_000_000
"""All properties of a batch: 4 MiB on Azure, in base64 and with the headers of each operation."""

COMPARABLE_TEXT = 1024
"""Longer text is stored, but no filter matches it: on Azure it becomes UTF-8 bytes, because
a text property there holds only 32 Ki characters."""

FILTER_COMPARISONS = 10
"""Azure allows 15 in a query; the key range needs up to four of them."""

QUERY_ROWS = 1000
"""Entities in one result, blobs in one listing."""

EARLIEST = datetime(1601, 1, 1, tzinfo=UTC)
"""Azure cannot store an earlier timestamp."""

LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
"""The last moment that Python can represent."""

# -- queues ----------------------------------------------------------------------------------
QUEUE_MESSAGE_BYTES = 48_000
"""Body and properties: 64 KiB on Azure, minus a third for base64, minus our own envelope."""

MOVED_MESSAGE_BYTES = QUEUE_MESSAGE_BYTES + 512
"""A message that is moved may have grown by properties that its receiver added."""

RECEIVE_MESSAGES = 32
"""Messages in one receive or peek."""

QUEUE_SECONDS = 7 * 24 * 3600.0
"""The longest lease and the longest delay of a queue message."""

# -- leases ----------------------------------------------------------------------------------
LEASE_SECONDS = 60.0
"""The longest named lease. Azure rounds up to at least 15 seconds."""

# -- names -----------------------------------------------------------------------------------
QUEUE_NAME_CHARACTERS = 255
BLOB_NAME_BYTES = 1024
BLOB_NAME_SEGMENTS = 254
LEASE_NAME_CHARACTERS = 100
