"""DKIM keys as resources of the API and the command line."""

from __future__ import annotations

from datetime import datetime

import msgspec

from postroom.domain.messages.dkim_keys import DkimKey


class DkimKeyResource(msgspec.Struct, frozen=True):
    """A DKIM key without its private part."""

    domain: str
    selector: str
    algorithm: str
    state: str
    created_at: datetime
    changed_at: datetime
    record_name: str
    record_value: str


def describe_dkim_key(key: DkimKey) -> DkimKeyResource:
    return DkimKeyResource(
        domain=key.domain,
        selector=key.selector,
        algorithm=key.algorithm,
        state=key.state,
        created_at=key.created_at,
        changed_at=key.changed_at,
        record_name=key.record_name,
        record_value=key.record_value,
    )
