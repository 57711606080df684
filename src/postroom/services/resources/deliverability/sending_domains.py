"""Sending domains, as the API and the command line show them: their DKIM keys, and what was found
about their DNS records."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from postroom.domain.messages.delivery.dkim_keys import DkimKey
from postroom.services.messages.domains.record_findings import RecordFinding, RecordState
from postroom.services.resources import Resource


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


class DnsRecordResource(Resource, frozen=True):
    """A DNS record to publish."""

    name: str
    type: str
    value: str


class DomainFindingResource(Resource, frozen=True):
    """What was found about one kind of record."""

    kind: Annotated[str, Meta(description="Such as `SPF`, `DMARC` or `DKIM SELECTOR`.")]
    state: Annotated[
        RecordState,
        Meta(description="`fine`, `info` (nothing has to be done), `weak` or `wrong`."),
    ]
    text: str
    advice: str
    record: Annotated[DnsRecordResource | None, Meta(description="The record to publish.")]


class DomainCheckResource(Resource, frozen=True):
    """The DNS records of the domain that a list sends from."""

    domain: str
    problem: Annotated[str | None, Meta(description="Why nothing was looked up, if so.")]
    findings: list[DomainFindingResource]


def describe_domain_check(
    domain: str, findings: list[RecordFinding], problem: str
) -> DomainCheckResource:
    return DomainCheckResource(
        domain, problem or None, [_described_finding(each) for each in findings]
    )


def _described_finding(finding: RecordFinding) -> DomainFindingResource:
    record = finding.record
    return DomainFindingResource(
        kind=finding.kind,
        state=finding.state,
        text=finding.text,
        advice=finding.advice,
        record=DnsRecordResource(record.name, record.type, record.value) if record else None,
    )
