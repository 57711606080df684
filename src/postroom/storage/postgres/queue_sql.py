"""The SQL statements of queues."""

from __future__ import annotations

# A put holds this lock shared, dropping the queue holds it exclusively: no message is left behind
# in a queue that was dropped.
DROP_LOCK = b"SELECT pg_advisory_xact_lock(1886352244, hashtext(%(queue)s))"

# The client chooses the IDs, so that an attempt whose reply was lost can be repeated.
PUT = b"""
WITH guard AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(1886352244, hashtext(%(queue)s))
), made AS (
    INSERT INTO postroom.queue (name) SELECT %(queue)s FROM guard ON CONFLICT DO NOTHING
), put AS (
    INSERT INTO postroom.put (id) SELECT %(put)s::uuid FROM guard ON CONFLICT DO NOTHING
    RETURNING id
)
INSERT INTO postroom.message
    (id, queue, visible_at, enqueued_at, expires_at, body, properties)
SELECT new.id, %(queue)s, now() + coalesce(new.delay, 0) * interval '1 second', now(),
       now() + new.ttl * interval '1 second', new.body, new.properties
FROM put, jsonb_to_recordset(%(messages)s::jsonb)
     AS new (id uuid, body text, delay float8, ttl float8, properties jsonb)
"""

IS_PUT = b"SELECT FROM postroom.put WHERE id = %(put)s::uuid"

# Messages that another receiver is claiming at this moment are skipped. Rows are updated by their
# place (`ctid`): a join by ID might read the whole table. Expired messages are claimed like others,
# and deleted instead of delivered.
CLAIM = b"""
WITH ready AS MATERIALIZED (
    SELECT ctid, visible_at FROM postroom.message
    WHERE queue = %(queue)s
    AND visible_at >= coalesce(%(floor)s::timestamptz, '-infinity') AND visible_at <= now()
    ORDER BY visible_at, id LIMIT %(limit)s::int
    FOR UPDATE SKIP LOCKED
)
UPDATE postroom.message AS message
SET visible_at = now() + %(lease)s::float8 * interval '1 second',
    receipt = %(receipt)s::bigint,
    dequeue_count = message.dequeue_count + 1
FROM ready WHERE message.ctid = ready.ctid
RETURNING message.id, message.body, message.properties, message.dequeue_count,
          message.enqueued_at, ready.visible_at, coalesce(message.expires_at <= now(), false),
          least(ready.visible_at, now() - interval '1 second')
"""
# One message, wherever in the queue it is.
CLAIM_ONE = b"""
UPDATE postroom.message
SET visible_at = now() + %(lease)s::float8 * interval '1 second',
    receipt = %(receipt)s::bigint,
    dequeue_count = dequeue_count + 1
WHERE id = %(id)s::uuid AND queue = %(queue)s AND visible_at <= now()
AND (expires_at > now()) IS NOT false
RETURNING id, body, properties, dequeue_count, enqueued_at
"""
# The messages of a claim whose reply was lost.
CLAIMED = b"""
SELECT id, body, properties, dequeue_count, enqueued_at, visible_at,
       coalesce(expires_at <= now(), false)
FROM postroom.message
WHERE queue = %(queue)s AND visible_at > now() AND receipt = %(receipt)s::bigint
ORDER BY id
"""
RENEW = b"""
UPDATE postroom.message SET visible_at = now() + %(lease)s::float8 * interval '1 second'
WHERE id = %(id)s::uuid AND receipt = %(receipt)s::bigint
"""
RELEASE = b"""
UPDATE postroom.message
SET visible_at = now() + %(delay)s::float8 * interval '1 second', receipt = NULL,
    dequeue_count = dequeue_count - %(uncounted)s::int
WHERE id = %(id)s::uuid AND receipt = %(receipt)s::bigint
"""
# The row stays the same: the message is never in two queues, or in none. The other queue is created
# as by a put; properties are kept if NULL is given.
MOVE = b"""
WITH guard AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(1886352244, hashtext(%(to)s))
), held AS MATERIALIZED (
    SELECT message.id FROM guard, postroom.message
    WHERE message.id = %(id)s::uuid AND receipt = %(receipt)s::bigint
    FOR UPDATE OF message
), made AS (
    INSERT INTO postroom.queue (name) SELECT %(to)s FROM held ON CONFLICT DO NOTHING
)
UPDATE postroom.message AS message
SET queue = %(to)s, visible_at = now() + %(delay)s::float8 * interval '1 second',
    receipt = NULL, dequeue_count = 0,
    properties = coalesce(%(properties)s::jsonb, message.properties)
FROM held WHERE message.id = %(id)s::uuid AND message.id = held.id
"""
WHERE = b"SELECT queue FROM postroom.message WHERE id = %(id)s::uuid"
DELETE = b"""
DELETE FROM postroom.message WHERE id = %(id)s::uuid AND receipt = %(receipt)s::bigint
"""
DEMAND_DELETE = b"""
WITH gone AS (
    DELETE FROM postroom.message USING unnest(
        string_to_array(%(ids)s, chr(31))::uuid[], string_to_array(%(receipts)s, chr(31))::bigint[]
    ) AS finished (id, receipt)
    WHERE message.id = finished.id AND message.receipt = finished.receipt RETURNING 1
)
SELECT postroom.all_or_nothing((SELECT count(*) FROM gone), %(wanted)s)
"""
EXISTS = b"SELECT FROM postroom.message WHERE id = %(id)s::uuid"
PEEK = b"""
SELECT id, body, properties, dequeue_count, enqueued_at FROM postroom.message
WHERE queue = %(queue)s AND visible_at <= now() AND (expires_at > now()) IS NOT false
ORDER BY visible_at, id LIMIT %(limit)s::int
"""

# By ID, which a message keeps when it is changed in the meantime.
BROWSE = b"""
SELECT id, body, properties, dequeue_count, enqueued_at, visible_at, expires_at
FROM postroom.message
WHERE queue = %(queue)s AND id > %(after)s::uuid AND (expires_at > now()) IS NOT false
ORDER BY id LIMIT %(limit)s::int
"""

# One queue, or all: the length (from indexes alone), and the next message.
_INFO = """
SELECT queue.name,
    (SELECT count(*) FROM postroom.message WHERE queue = queue.name)
    - (SELECT count(*) FROM postroom.message WHERE expires_at <= now() AND queue = queue.name),
    (SELECT enqueued_at FROM postroom.message
     WHERE queue = queue.name AND visible_at <= now() AND (expires_at > now()) IS NOT false
     ORDER BY visible_at, id LIMIT 1)
FROM postroom.queue {where} ORDER BY queue.name
"""
INFO_ONE = _INFO.format(where="WHERE queue.name = %(queue)s").encode()
INFO_ALL = _INFO.format(where="").encode()

PURGE = b"DELETE FROM postroom.message WHERE queue = %(queue)s"
DROP = b"DELETE FROM postroom.queue WHERE name = %(queue)s"
