"""Providers, over HTTP: what the page shows, and limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from postroom import clock
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.delivery.providers import Provider
from postroom.domain.messages.delivery.warm_up import WarmUpPlan
from postroom.sender.limits.sending_limits import WARMING_UP
from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.holds import Fault, HoldKey, WaitingReasons
from postroom.services.messages.sending.provider_rates import ProviderLimit
from postroom.services.messages.sending.warm_ups import next_day
from postroom.transport.contract import THROTTLED, FaultScope
from tests.integration.usecases.pages import fan_out_whole, settle_waiting
from tests.web.site import Site

GMAIL = Provider("gmail.com")


async def test_the_page_shows_the_rate_the_reply_and_the_hold_of_a_provider(site: Site) -> None:
    viewer = await site.user(Role.VIEWER)
    assert "No providers yet" in (await viewer.get("/providers")).text
    await site.services.provider_rates.throttled(GMAIL, 90.0, "421 4.7.28 unusual rate")
    fault = Fault(FaultScope.PROVIDER, HoldKey("provider:gmail.com"), THROTTLED, "421 4.7.28")
    await site.services.holds.open(fault)
    shown = (await viewer.get("/providers")).text
    for words in (
        "gmail.com",
        ">45<",
        "421 4.7.28 unusual rate",
        "On hold",
        "5 at the same time",
        "50 per connection",
    ):
        assert words in shown
    assert "Limit provider" not in shown
    assert (await viewer.get("/providers/limit")).status_code == 403


async def test_an_administrator_limits_a_provider_and_resets_its_rate(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    rates = site.services.provider_rates
    await rates.throttled(GMAIL, 90.0, "421 slow down")
    form = {
        "provider": "GoogleMail.com",
        "per_second": "2,5",
        "connections": "3",
        "emails_per_connection": "40",
        "rest_minutes": "30",
    }
    saved = await admin.post("/providers/limit", form)
    assert saved.headers["location"] == "/providers"
    assert (await rates.get(GMAIL)).limit == ProviderLimit(2.5, 3, 40, 30)
    shown = (await admin.get("/providers")).text
    assert "40 per connection" in shown
    assert "None for 30 min after throttling" in shown
    page = (await admin.get("/providers/limit?provider=gmail.com")).text
    for words in ('value="2.5"', 'value="40"', 'value="30"', "Leave empty for 50, once"):
        assert words in page
    assert "Reset learned rate" in page
    assert (await admin.post("/providers/reset", {"provider": "gmail.com"})).status_code == 303
    assert (await rates.get(GMAIL)).learned is None
    empty = dict.fromkeys(form, "") | {"provider": "gmail.com"}
    await admin.post("/providers/limit", empty)
    assert await rates.all() == {}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"provider": "gmail"}, "must be a domain such as gmail.com, not “gmail”"),
        ({"per_second": "many"}, "must be a number, not “many”"),
        ({"per_second": "0"}, "must be between 0.001 and 100,000, not 0"),
        ({"per_second": "nan"}, "must be between 0.001 and 100,000, not nan"),
        ({"connections": "1.5"}, "must be a whole number, not “1.5”"),
        ({"connections": "5000"}, "must be between 1 and 1,000, not 5000"),
        ({"emails_per_connection": "0"}, "must be between 1 and 1,000,000, not 0"),
        ({"rest_minutes": "20000"}, "must be between 0 and 10,080, not 20000"),
    ],
)
async def test_a_wrong_limit_is_shown_at_its_field(
    site: Site, wrong: dict[str, str], words: str
) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    names = ("per_second", "connections", "emails_per_connection", "rest_minutes")
    form = {"provider": "gmail.com", **dict.fromkeys(names, ""), **wrong}
    shown = await admin.post("/providers/limit", form)
    assert shown.status_code == 422
    assert words in shown.text


async def test_the_form_shows_what_is_known_about_a_provider(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    shown = (await admin.get("/providers/limit?provider=aol.com")).text
    assert "Leave empty for 20, once the provider throttles you." in shown
    assert "Only a reply with [TSS04] counts. Leave empty for 120." in shown
    shown = (await admin.get("/providers/limit?provider=free.fr")).text
    assert "Leave empty to try again within seconds." in shown


async def test_a_warm_up_is_planned_shown_and_ended(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    today = datetime.now(UTC).date().isoformat()
    form = {"domain": "", "starts": today, "volumes": "50, 100"}
    assert (await admin.post("/providers/warm-up", form)).status_code == 303
    shown = (await admin.get("/providers")).text
    assert "Warm-up of all emails" in shown
    assert "0 of 50 emails used today" in shown
    assert "\n50, 100</textarea>" in (await admin.get("/providers/warm-up?domain=all")).text
    for wrong, words in (
        ({"starts": "soon"}, "must be a day such as 2027-01-31, not “soon”"),
        ({"volumes": "many"}, "must be whole numbers separated by commas, not “many”"),
        ({"domain": "none"}, "must be a domain such as example.com, or all, not “none”"),
    ):
        refused = await admin.post("/providers/warm-up", {**form, **wrong})
        assert (refused.status_code, words in refused.text) == (422, True)
    assert (await admin.post("/providers/warm-up/remove", {"domain": "all"})).status_code == 303
    assert (await admin.post("/providers/warm-up/remove", {"domain": "all"})).status_code == 404


async def test_the_page_of_a_message_says_until_when_its_emails_wait(site: Site) -> None:
    services = site.services
    await services.lists.create("news", "News", "news@contoso.example")
    for number in range(3):
        await services.subscriptions.add("news", f"user{number}@b.org", verified=True)
    today = datetime.now(UTC).date()
    await services.warm_ups.save(WarmUpPlan("contoso.example", today, (1, 1, 1, 9, 9)))
    made = await services.messages.create("news", "Hello", NewBodies("<p>x</p>", "x"), clock.now())
    message = await fan_out_whole(services.store, made.ref)
    wait = WaitingReasons(3, next_day(), WARMING_UP)
    await settle_waiting(services, message, wait)
    viewer = await site.user(Role.VIEWER)
    shown = (await viewer.get(f"/messages/{message.ref}")).text
    assert "3 emails deferred" in shown
    last = today + timedelta(days=2)
    assert f"The last emails of this message are sent on {last.day} {last:%b %Y} (UTC)" in shown
    link = '<a href="/providers">warm-up plan</a>'
    assert link in shown
    member = await site.user(Role.MEMBER, "eve@example.org")
    assert member.user is not None
    await services.list_grants.set(
        member.user.principal, ListName("news"), frozenset({ListRight.VIEW})
    )
    shown = (await member.get(f"/messages/{message.ref}")).text
    assert "A warm-up plan limits the emails of each day." in shown
    assert link not in shown
