"""The DNS records of sending domains, asked of a real server on loopback."""

import pytest

from postroom.services.messages.sending_domains import (
    DomainRecords,
    RecordState,
    check_domain,
    find_dmarc,
    tree_walk,
)
from tests.services.dns_server import running_dns_server


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
        found = await find_dmarc(resolver, domain)
    assert (None if found is None else found.domain) == found_at


async def test_two_records_count_as_none() -> None:
    with running_dns_server({"_dmarc.contoso.com": ["v=DMARC1; p=none", "v=DMARC1"]}) as resolver:
        assert await find_dmarc(resolver, "contoso.com") is None


async def test_what_is_not_as_it_should_be_is_told() -> None:
    good = {
        "contoso.com": ["v=spf1 mx -all"],
        "key._domainkey.contoso.com": ["v=DKIM1; p=MIIB"],
        "_dmarc.contoso.com": ["v=DMARC1; p=none"],
    }
    with running_dns_server(good) as resolver:
        assert await DomainRecords("key", resolver).faults("contoso.com") == []
        bare = await DomainRecords("key", resolver).faults("fabrikam.com")
    assert bare is not None
    assert [each.kind for each in bare] == ["SPF", "DKIM", "DMARC"]
    with running_dns_server({"contoso.com": ["v=spf1 -all", "v=spf1 mx -all"]}) as resolver:
        [spf, *_] = await check_domain(resolver, "contoso.com", "")
    assert spf.state is RecordState.WRONG
