"""The DNS records of sending domains, asked of a real server on loopback."""

from pathlib import Path

import pytest

from postroom.encryption import Keyring
from postroom.services.messages.domains.dkim_keys import DkimKeyService
from postroom.services.messages.domains.dmarc import (
    check_alignment,
    check_dmarc,
    find_dmarc,
    organisation,
    tree_walk,
)
from postroom.services.messages.domains.dns_lookups import DnsLookups
from postroom.services.messages.domains.domain_checks import DomainChecks, OurSending
from postroom.services.messages.domains.receiving import check_names
from postroom.services.messages.domains.record_findings import DnsRecord, RecordState
from postroom.services.messages.domains.spf import check_spf
from postroom.storage import open_store
from tests.services.dns_server import running_dns_server
from tests.services.mail.recording_smtp import running_recording_smtp


def test_the_walk_goes_up_to_the_last_label_with_a_short_cut() -> None:
    assert tree_walk("mail.contoso.com") == ["mail.contoso.com", "contoso.com", "com"]
    long = "a.b.c.d.e.f.g.h.i.j.contoso.com"
    walked = tree_walk(long)
    assert walked[:2] == [long, "f.g.h.i.j.contoso.com"]
    assert walked[-1] == "com"
    assert len(walked) == 8  # RFC 9989 4.10: never more queries


@pytest.mark.parametrize(
    ("records", "found_at"),
    [
        ({"mail.contoso.com": "v=DMARC1; p=reject", "contoso.com": "v=DMARC1; p=none"},
         "mail.contoso.com"),
        ({"contoso.com": "v=DMARC1; p=none"}, "contoso.com"),
        # The record with the fewest labels is that of the organisation.
        ({"b.contoso.com": "v=DMARC1; p=none", "contoso.com": "v=DMARC1;p=none"}, "contoso.com"),
        ({"contoso.com": "v=DMARC1; p=none", "com": "v=DMARC1; p=none; psd=y"}, "contoso.com"),
        ({"com": "v=DMARC1; p=none; psd=y"}, "com"),
        # Neither the domain itself nor its organisation, contoso.com, has one.
        ({"b.contoso.com": "v=DMARC1; p=none", "com": "v=DMARC1; p=none; psd=y"}, "com"),
        ({"contoso.com": "v=DMARC1; p=none; psd=n", "com": "v=DMARC1; p=none"}, "contoso.com"),
        ({"contoso.com": "v=DMARC2; p=none"}, None),
        ({}, None),
    ],
)  # fmt: skip
async def test_the_record_that_applies_is_found(
    records: dict[str, str], found_at: str | None
) -> None:
    domain = "a.b.contoso.com" if "b.contoso.com" in records else "mail.contoso.com"
    published = {f"_dmarc.{name}": [text] for name, text in records.items() if text}
    with running_dns_server(published) as resolver:
        found = await find_dmarc(DnsLookups(resolver), domain)
    assert (None if found is None else found.domain) == found_at


async def test_two_records_count_as_none() -> None:
    with running_dns_server({"_dmarc.contoso.com": ["v=DMARC1; p=none", "v=DMARC1"]}) as resolver:
        assert await find_dmarc(DnsLookups(resolver), "contoso.com") is None


async def test_problems_of_a_domain_are_reported(tmp_path: Path) -> None:
    good = {
        "contoso.com": ["v=spf1 mx -all"],
        "key._domainkey.contoso.com": ["v=DKIM1; p=MIIB"],
        "_dmarc.contoso.com": ["v=DMARC1; p=none"],
    }
    with running_dns_server(good) as resolver:
        async with await open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
            keys = DkimKeyService(store, Keyring(lambda: [b"the secret key of this test"]))
            checks = DomainChecks(keys, OurSending("key"), resolver)
            assert await checks.faults("contoso.com") == []
            bare = await checks.faults("fabrikam.com")
    assert bare is not None
    assert [each.kind for each in bare] == ["SPF", "DKIM", "DMARC"]
    with running_dns_server({"contoso.com": ["v=spf1 -all", "v=spf1 mx -all"]}) as resolver:
        spf = await check_spf(DnsLookups(resolver), "contoso.com")
    assert spf.state is RecordState.WRONG


@pytest.mark.parametrize(
    ("record", "state", "words"),
    [
        ("v=spf1 ip4:192.0.2.0/24 -all", "fine", "allows 192.0.2.1: "),
        ("v=spf1 include:relay.example.net -all", "fine", "(1 of 10 DNS lookups)"),
        ("v=spf1 a:mail.contoso.com ~all", "fine", "allows"),
        ("v=spf1 mx/24 -all", "fine", "allows"),
        ("v=spf1 redirect=relay.example.net", "fine", "allows"),
        ("v=spf1 ip4:198.51.100.1 -all", "wrong", "it does not allow 192.0.2.1"),
        ("v=spf1 -ip4:192.0.2.1 ip4:192.0.2.0/24 -all", "wrong", "does not allow"),
        ("v=spf1 include:missing.example.net -all", "wrong", "has no SPF records"),
        ("v=spf1 ip4:nonsense -all", "wrong", "nonsense is not a network"),
        ("v=spf1 include:loop.example.net -all", "wrong", "DNS lookups"),
        ("v=spf1 +all", "weak", "allows everyone"),
        (f"v=spf1 {'a:mail.contoso.com ' * 11}-all", "wrong", "more DNS lookups than allowed"),
    ],
    ids=lambda value: None if isinstance(value, str) and " " in value else value,
)
async def test_spf_is_evaluated_as_receivers_do(record: str, state: str, words: str) -> None:
    zone = {
        "contoso.com": [record],
        "contoso.com MX": ["10 mail.contoso.com."],
        "mail.contoso.com A": ["192.0.2.1"],
        "relay.example.net": ["v=spf1 ip4:192.0.2.1 -all"],
        "loop.example.net": ["v=spf1 include:loop.example.net -all"],
    }
    with running_dns_server(zone) as resolver:
        found = await check_spf(DnsLookups(resolver), "contoso.com", ["192.0.2.1"])
    assert (found.state.value, words in found.text) == (state, True), found.text
    if "does not allow" in found.text:
        assert found.record is not None
        assert found.record.value.startswith("v=spf1 ip4:192.0.2.1 ")


async def test_everything_about_a_domain_is_found(tmp_path: Path) -> None:
    zone = {
        "contoso.com": ["v=spf1 ip4:192.0.2.1 -all"],
        "contoso.com MX": ["10 mx.contoso.com."],
        "mx.contoso.com A": ["127.0.0.1"],
        "mail.contoso.com A": ["192.0.2.1"],
        "1.2.0.192.in-addr.arpa PTR": ["mail.contoso.com."],
        "_dmarc.contoso.com": ["v=DMARC1; p=reject; t=y"],
        "bounces.contoso.com": ["v=spf1 ip4:192.0.2.1 ip4:192.0.2.2 -all"],
        "_smtp._tls.contoso.com": ["v=TLSRPTv1; rua=mailto:a@contoso.com"],
    }
    ours = OurSending("key", ("192.0.2.1", "192.0.2.2"), "bounces.contoso.com")
    with (
        running_dns_server(zone) as resolver,
        running_recording_smtp() as server,
    ):
        async with await open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
            keys = DkimKeyService(store, Keyring(lambda: [b"the secret key of this test"]))
            port = server.port
            checks = DomainChecks(
                keys, ours, resolver, smtp_port=port, may_try=lambda address: True
            )
            found = {each.kind: each for each in (await checks.findings("contoso.com"))[0]}
            elsewhere = DomainChecks(keys, OurSending(envelope_domain="relay.net"), resolver)
            foreign = {each.kind: each for each in await elsewhere.check("contoso.com")}
            greeted = server.connections()
            public = DomainChecks(keys, ours, resolver, smtp_port=port)
            untried = {each.kind: each for each in await public.check_everything("contoso.com")}
            assert server.connections() == greeted, "an MX may name a host of the own network"
    assert {kind: each.state.value for kind, each in found.items()} == {
        "SPF": "fine",
        "DKIM": "weak",
        "DMARC": "info",
        "Bounce domain": "fine",
        "SPF of bounces.contoso.com": "fine",
        "MX": "fine",
        "TLS of the MX": "weak",
        "PTR of 192.0.2.1": "fine",
        "PTR of 192.0.2.2": "wrong",
        "MX of bounces.contoso.com": "wrong",
        "MTA-STS": "info",
        "TLS-RPT": "fine",
        "BIMI": "info",
    }
    for each in found.values():
        assert each.record is not None or each.state.value == "fine" or each.kind.startswith("TLS")
    name = found["PTR of 192.0.2.2"].record
    assert name is not None
    assert (name.name, name.type) == ("2.2.0.192.in-addr.arpa", "PTR")
    assert "does not offer STARTTLS" in found["TLS of the MX"].text
    tls = untried["TLS of the MX"]
    assert (tls.state, tls.text) == (
        RecordState.INFO,
        "not tried: mx.contoso.com does not have a public IP address",
    )
    assert "in test mode" in found["DMARC"].text
    assert foreign["Bounce domain"].state is RecordState.WEAK


@pytest.mark.parametrize(
    ("record", "text", "replacement"),
    [
        ("v=DMARC1; p=reject; pct=50", "pct no longer counts", "v=DMARC1; p=reject"),
        ("v=DMARC1; p=all", "the policy 'all' is unknown", "v=DMARC1; p=none"),
        ("v=DMARC1; p=reject; t=y", "reject counts as quarantine", "v=DMARC1; p=reject"),
        ("v=DMARC1; p=quarantine; t=y", "quarantine counts as none", "v=DMARC1; p=quarantine"),
    ],
)
async def test_a_dmarc_finding_shows_the_record_to_publish_instead(
    record: str, text: str, replacement: str
) -> None:
    with running_dns_server({"_dmarc.contoso.com": [record]}) as resolver:
        found = await check_dmarc(DnsLookups(resolver), "contoso.com")
    assert text in found.text
    assert found.record == DnsRecord("_dmarc.contoso.com", "TXT", replacement)


async def test_strict_alignment_and_spf_findings_show_the_record_to_publish_instead() -> None:
    zone = {
        "_dmarc.contoso.com": ["v=DMARC1; p=none; aspf=s"],
        "contoso.com": ["v=spf1 ip4:192.0.2.1 -all", "v=spf1 include:relay.example.net -all"],
        "open.contoso.com": ["v=spf1 mx +all"],
    }
    with running_dns_server(zone) as resolver:
        lookups = DnsLookups(resolver)
        alignment = await check_alignment(lookups, "contoso.com", "bounces.contoso.com")
        several = await check_spf(lookups, "contoso.com", ["192.0.2.9"])
        everybody = await check_spf(lookups, "open.contoso.com")
    assert alignment is not None
    values = [
        each.record.value for each in (alignment, several, everybody) if each.record is not None
    ]
    assert values == [
        "v=DMARC1; p=none",
        "v=spf1 ip4:192.0.2.9 include:relay.example.net ip4:192.0.2.1 ~all",
        "v=spf1 mx ~all",
    ]


async def test_a_check_says_that_names_are_not_looked_up_without_sending_addresses() -> None:
    with running_dns_server({}) as resolver:
        [found] = await check_names(DnsLookups(resolver), (), "contoso.com")
    assert (found.kind, found.state) == ("PTR", RecordState.INFO)
    assert "sending_addresses" in found.advice


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ({}, "a.b.contoso.com"),
        ({"contoso.com": "v=DMARC1"}, "contoso.com"),
        ({"b.contoso.com": "v=DMARC1", "contoso.com": "v=DMARC1"}, "contoso.com"),
        ({"b.contoso.com": "v=DMARC1; psd=n", "contoso.com": "v=DMARC1"}, "b.contoso.com"),
        ({"com": "v=DMARC1; psd=y"}, "contoso.com"),
    ],
    ids=range(5),
)
async def test_the_organisation_of_a_domain(records: dict[str, str], expected: str) -> None:
    published = {f"_dmarc.{name}": [text] for name, text in records.items()}
    with running_dns_server(published) as resolver:
        assert await organisation(DnsLookups(resolver), "a.b.contoso.com") == expected
