"""What was found about a sending domain, as the API shows it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from postroom.services.messages.domains.record_findings import RecordFinding, RecordState
from postroom.services.resources import Resource


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
    return DomainCheckResource(domain, problem or None, [_described(each) for each in findings])


def _described(finding: RecordFinding) -> DomainFindingResource:
    record = finding.record
    return DomainFindingResource(
        kind=finding.kind,
        state=finding.state,
        text=finding.text,
        advice=finding.advice,
        record=DnsRecordResource(record.name, record.type, record.value) if record else None,
    )
