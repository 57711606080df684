"""`postroom check` beyond the store and the transport: DNS, disk, keys, the public address."""

from __future__ import annotations

import io
import socket
from pathlib import Path

import pytest
from dns.asyncresolver import Resolver

from postroom.checks import Finding, FindingState, check_everything
from postroom.settings import Settings, load_settings
from postroom.storage import Entity
from postroom.wiring import opened_services
from tests.services.dns_server import resolver_of, running_dns_server
from tests.services.mail.recording_smtp import Rule, running_recording_smtp
from tests.services.mail.smtp_sink import SmtpSink

GOOD = {
    "news.contoso.se": ["v=spf1 include:_spf.contoso.se -all", "some-verification=1"],
    "_spf.contoso.se": ["v=spf1 ip4:192.0.2.0/24 -all"],
    "s1._domainkey.news.contoso.se": ["v=DKIM1; k=ed25519; p=abc="],
    "_dmarc.contoso.se": ["v=DMARC1; p=reject"],
}

NO_DNS = Resolver(configure=False)
"""Raises when it is asked."""


async def findings(
    tmp_path: Path, resolver: Resolver | None = None, **environment: str
) -> dict[str, Finding]:
    settings = await settings_with_a_list(tmp_path, environment)
    return {each.part: each for each in await check_everything(settings, resolver=resolver)}


async def settings_with_a_list(
    tmp_path: Path, environment: dict[str, str], sender: str = "hello@news.contoso.se"
) -> Settings:
    variables = {f"POSTROOM_{name.upper()}": value for name, value in environment.items()}
    settings = load_settings({"POSTROOM_DATA": str(tmp_path), **variables}, tmp_path)
    async with opened_services(settings) as services:
        await services.lists.create("news", "News", sender)
    return settings


async def test_applications_that_cannot_be_registered_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = await settings_with_a_list(tmp_path, {})

    async def found() -> Finding:
        everything = await check_everything(settings, resolver=NO_DNS)
        return next(each for each in everything if each.part == "applications")

    one = '[[apps]]\npath = "/shop/orders"\ncommand = ["true"]\n'
    file = tmp_path / "postroom.toml"
    file.write_text(one)
    good = await found()
    assert good.state is FindingState.OK
    assert good.text == "those of postroom.toml can run: /shop/orders"

    file.write_text(one + one.replace("/shop", "/SHOP"))
    twice = await found()
    assert twice.state is FindingState.ERROR
    assert twice.text == "postroom.toml, line 5: /SHOP/orders is already used in line 2"


async def test_a_domain_that_is_set_up_well(tmp_path: Path, smtp_sink: SmtpSink) -> None:
    with running_dns_server(GOOD) as resolver:
        found = await findings(
            tmp_path,
            transport=f"smtp://127.0.0.1:{smtp_sink.port}",
            resolver=resolver,
            dkim_selector="s1",
        )

    for part in ("SPF", "DKIM", "DMARC"):
        assert found[f"{part} of news.contoso.se"].state is FindingState.OK
    # A record of the domain above counts for those below it.
    assert "_dmarc.contoso.se" in found["DMARC of news.contoso.se"].text


async def test_a_domain_without_records_gets_advice_on_what_to_publish(
    tmp_path: Path, smtp_sink: SmtpSink
) -> None:
    with running_dns_server({}) as resolver:
        found = await findings(
            tmp_path, transport=f"smtp://127.0.0.1:{smtp_sink.port}", resolver=resolver
        )

    assert found["SPF of news.contoso.se"].state is FindingState.WARNING
    assert "v=spf1" in found["SPF of news.contoso.se"].advice
    assert "_dmarc.news.contoso.se" in found["DMARC of news.contoso.se"].advice
    assert "dkim_selector" in found["DKIM of news.contoso.se"].advice


@pytest.mark.parametrize(
    ("records", "part", "state", "advice"),
    [
        (["v=spf1 +all"], "SPF", FindingState.WARNING, "everyone"),
        (["v=spf1 -all", "v=spf1 mx -all"], "SPF", FindingState.ERROR, "there are 2"),
        (["v=spf10 -all"], "SPF", FindingState.WARNING, "none"),
    ],
)
async def test_records_that_do_not_protect(
    tmp_path: Path,
    smtp_sink: SmtpSink,
    records: list[str],
    part: str,
    state: FindingState,
    advice: str,
) -> None:
    with running_dns_server({"news.contoso.se": records}) as resolver:
        found = await findings(
            tmp_path, transport=f"smtp://127.0.0.1:{smtp_sink.port}", resolver=resolver
        )

    assert found[f"{part} of news.contoso.se"].state is state
    assert advice in found[f"{part} of news.contoso.se"].text


async def test_a_revoked_key_is_an_error(tmp_path: Path, smtp_sink: SmtpSink) -> None:
    records = {"s1._domainkey.news.contoso.se": ["v=DKIM1; p="]}
    with running_dns_server(records) as resolver:
        found = await findings(
            tmp_path,
            transport=f"smtp://127.0.0.1:{smtp_sink.port}",
            resolver=resolver,
            dkim_selector="s1",
        )

    assert found["DKIM of news.contoso.se"].state is FindingState.ERROR


async def test_without_a_network_it_says_so(tmp_path: Path, smtp_sink: SmtpSink) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        resolver = resolver_of(silent)
        found = await findings(
            tmp_path, transport=f"smtp://127.0.0.1:{smtp_sink.port}", resolver=resolver
        )

    assert found["DNS"].state is FindingState.WARNING
    assert "not looked up" in found["DNS"].text


async def test_nothing_is_looked_up_for_emails_that_stay_here(tmp_path: Path) -> None:
    found = await findings(tmp_path, resolver=NO_DNS)

    assert not [part for part in found if "SPF" in part or part == "DNS"]


async def test_nothing_is_looked_up_for_a_domain_that_nobody_can_have(
    tmp_path: Path, smtp_sink: SmtpSink
) -> None:
    environment = {"transport": f"smtp://127.0.0.1:{smtp_sink.port}"}
    settings = await settings_with_a_list(tmp_path, environment, "hello@mail.example.com")

    found = await check_everything(settings, resolver=NO_DNS)

    assert not [each for each in found if "SPF" in each.part or each.part == "DNS"]


async def test_a_key_that_could_be_guessed_is_a_warning(tmp_path: Path) -> None:
    found = await findings(tmp_path, secret_key="a" * 40)

    assert found["secret_key"].state is FindingState.WARNING


async def test_an_address_that_does_not_respond_is_a_warning(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    found = await findings(tmp_path, base_url=f"http://127.0.0.1:{port}")

    assert found["web"].state is FindingState.WARNING
    assert "postroom up" in found["web"].advice


async def test_the_clock_and_the_disk_are_looked_at(tmp_path: Path) -> None:
    found = await findings(tmp_path)

    assert found["clock"].state is FindingState.OK
    assert "GB free" in found["disk"].text
    assert found["queues"].state is FindingState.OK


async def test_failed_messages_and_stopped_queues_are_reported(tmp_path: Path) -> None:
    settings = await settings_with_a_list(tmp_path, {})
    async with opened_services(settings) as services:
        await services.store.queue("shop/orders;poison").put("bad")
        await services.queues.fault("shop/other", "message 7 failed")
    found = [each for each in await check_everything(settings) if each.part == "queues"]
    stopped, failed = found
    assert (stopped.state, failed.state) == (FindingState.WARNING, FindingState.WARNING)
    assert stopped.text == "shop/other is stopped: message 7 failed"
    assert failed.text == "1 message in shop/orders;poison"
    assert "postroom queue redrive 'shop/orders;poison'" in failed.advice


async def test_a_test_email_is_sent_on_request_only(tmp_path: Path) -> None:
    with running_recording_smtp() as server:
        settings = await settings_with_a_list(tmp_path, {"transport": server.url})
        await check_everything(settings)
        assert server.accepted() == []

        found = await check_everything(settings, mail_to="ann@example.com")

        assert found[-1].part == "test email"
        assert found[-1].state is FindingState.OK
        [mail] = server.accepted()
        assert mail.recipients == ("ann@example.com",)
        assert b"Subject: Postroom: test email" in mail.content
        # From the list's address: the mail server need not let us write in ann's name.
        assert mail.sender == "hello@news.contoso.se"
        assert b"From: Postroom <hello@news.contoso.se>" in mail.content


async def test_the_from_address_of_a_test_email_can_be_chosen(tmp_path: Path) -> None:
    with running_recording_smtp() as server:
        environment = {"transport": server.url, "alert_from": "alerts@contoso.se"}
        settings = await settings_with_a_list(tmp_path, environment)

        await check_everything(settings, mail_to="ann@example.com")
        await check_everything(settings, mail_to="ann@example.com", mail_from="me@contoso.se")
        found = await check_everything(settings, mail_to="ann@example.com", mail_from="me")

        assert [each.sender for each in server.accepted()] == ["alerts@contoso.se", "me@contoso.se"]
        assert found[-1].state is FindingState.ERROR


async def test_without_a_list_a_test_email_asks_for_a_from_address(tmp_path: Path) -> None:
    with running_recording_smtp() as server:
        variables = {"POSTROOM_DATA": str(tmp_path), "POSTROOM_TRANSPORT": server.url}
        settings = load_settings(variables, tmp_path)
        found = await check_everything(settings, mail_to="ann@example.com")
        assert server.accepted() == []

    assert (found[-1].part, found[-1].state) == ("test email", FindingState.ERROR)
    assert "create a list" in found[-1].text
    assert "--from" in found[-1].advice


async def test_a_test_email_that_is_refused_says_why(tmp_path: Path) -> None:
    with running_recording_smtp(Rule("RCPT", reply="550 5.1.1 nobody here")) as server:
        settings = await settings_with_a_list(tmp_path, {"transport": server.url})
        found = await check_everything(settings, mail_to="ann@example.com")

    assert found[-1].state is FindingState.ERROR
    assert "550 5.1.1 nobody here" in found[-1].text


async def test_the_consent_ledger_is_verified(tmp_path: Path) -> None:
    settings = await settings_with_a_list(tmp_path, {})
    async with opened_services(settings) as services:
        ann = await services.subscriptions.add("news", "ann@example.com", verified=True)
        found = {each.part: each for each in await check_everything(settings)}
        assert found["consent ledger"].state is FindingState.OK
        assert found["consent ledger"].text == "all intact (subscriptions: 1, entries: 1)"
        await services.imports.import_csv("news", io.BytesIO(b"email\nbob@a.org\ncid@a.org"))
        found = {each.part: each for each in await check_everything(settings)}
        assert found["consent ledger"].text == "all intact (subscriptions: 3, entries: 3)"
        table, row = services.store.table("mailinglist"), f"ledger:{ann.guid},000001"
        entry = await table.get("news", row)
        assert entry is not None
        await table.replace(Entity("news", row, {**entry.properties, "Act": "confirmed"}))
    found = {each.part: each for each in await check_everything(settings)}
    assert found["consent ledger"].state is FindingState.ERROR
    broken = f"list news, subscriber {ann.guid}: entry 1 was changed"
    assert found["consent ledger"].text == broken
