"""Sending domains, over HTTP: DKIM keys from creation to removal, and what DNS says about them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dns.asyncresolver import Resolver

from postroom.services.accounts.users import Role
from postroom.services.audience import from_domains
from tests.services.dns_server import running_dns_server
from tests.web.site import Site, Visitor, running_site

PAGE = "/domains/details?domain=contoso.com"
ONE = {"domain": "contoso.com", "selector": "one"}


@pytest.fixture
async def site(tmp_path: Path, quick_passwords: None) -> AsyncIterator[Site]:
    async with running_site(tmp_path, {"online_checks": "yes"}) as running:
        running.context.resolver = Resolver(configure=False)  # raises when it is asked
        yield running


@pytest.fixture
async def admin(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.com")
    return await site.user(Role.ADMINISTRATOR)


async def test_a_key_signs_once_its_record_is_published(site: Site, admin: Visitor) -> None:
    assert "your mail server, or not at all" in (await admin.get("/domains")).text
    primary = r'<button type="submit" class="primary"[^>]*>([^<]+)'
    assert re.findall(primary, (await admin.get(PAGE)).text) == ["Create key"]
    created = await admin.post("/domains/keys/create", {**ONE, "algorithm": "rsa"})
    assert created.headers["location"] == PAGE
    [key] = await site.services.dkim_keys.of_domain("contoso.com")
    page = (await admin.get(PAGE)).text
    assert key.record_name in page
    assert key.record_value in page
    assert re.findall(primary, page) == ["Check DNS and start signing"], "and no other key"
    published: dict[str, list[str]] = {}
    with running_dns_server(published) as resolver:
        site.context.resolver = resolver
        question = await admin.post("/domains/keys/activate", ONE)
        assert "There is no key at one._domainkey.contoso.com." in question.text
        checked = await admin.get("/domains/check?domain=contoso.com")
        assert "Publish this record." in checked.text
        other = await site.services.dkim_keys.create("contoso.com", "rsa", "two")
        published[key.record_name] = [other.record_value]
        question = await admin.post("/domains/keys/activate", ONE)
        assert "does not verify our signatures" in question.text
        published[key.record_name] = [key.record_value]
        started = await admin.post("/domains/keys/activate", ONE)
        assert await admin.said(started) == "Emails from contoso.com are signed with one."
        checked = await admin.get("/domains/check?domain=contoso.com")
        assert "verifies our signatures" in checked.text
    assert "<code>one</code>" in (await admin.get("/domains")).text


async def test_the_domains_of_all_lists_are_shown(
    site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_domains, "_AT_ONCE", 2)
    for name in ("alpha", "omega", "zebra"):
        await site.services.lists.create(name, name, f"news@{name}.org")
    page = (await admin.get("/domains")).text
    for domain in ("alpha.org", "contoso.com", "omega.org", "zebra.org"):
        assert domain in page


async def test_keys_are_rotated_retired_and_removed(site: Site, admin: Visitor) -> None:
    for selector in ("one", "two"):
        await site.services.dkim_keys.create("contoso.com", "ed25519", selector)
    await site.services.dkim_keys.activate("contoso.com", "one")
    assert (await admin.post("/domains/keys/rotate", {"domain": "contoso.com"})).status_code == 303
    assert (await admin.post("/domains/keys/remove", ONE)).status_code == 409  # it signs
    anyway = {"domain": "contoso.com", "selector": "two", "anyway": "yes"}
    assert (await admin.post("/domains/keys/activate", anyway)).status_code == 303
    page = (await admin.get(PAGE)).text
    assert "Retired" in page
    assert "Postroom signs emails from contoso.com with <code>two</code>." in page
    question = await admin.get("/domains/keys/remove?domain=contoso.com&selector=one")
    assert "Remove key one?" in question.text
    assert (await admin.post("/domains/keys/remove", ONE)).status_code == 303
    assert (await admin.post("/domains/keys/remove", ONE)).status_code == 404
    stopped = await admin.post("/domains/keys/deactivate", {**ONE, "selector": "two"})
    assert await admin.said(stopped) == "two no longer signs."


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"selector": "no selector"}, "Selector must have 1 to 63 letters"),
        ({"algorithm": "dsa"}, "Algorithm must be rsa or ed25519"),
        ({"selector": "one"}, "already exists"),
    ],
    ids=["selector", "algorithm", "twice"],
)
async def test_wrong_input_is_explained(
    site: Site, admin: Visitor, wrong: dict[str, str], words: str
) -> None:
    await site.services.dkim_keys.create("contoso.com", "ed25519", "one")
    given = {"domain": "contoso.com", "algorithm": "rsa", "selector": "", **wrong}
    answer = await admin.post("/domains/keys/create", given)
    assert answer.status_code == 422
    assert words in answer.text


async def test_without_online_checks_nothing_is_looked_up(
    tmp_path: Path, quick_passwords: None
) -> None:
    async with running_site(tmp_path) as offline:
        admin = await offline.user(Role.ADMINISTRATOR)
        checked = await admin.get("/domains/check?domain=contoso.com")
        assert "the setting online_checks is no" in checked.text
        await offline.services.dkim_keys.create("contoso.com", "ed25519", "one")
        assert (await admin.post("/domains/keys/activate", ONE)).status_code == 303
