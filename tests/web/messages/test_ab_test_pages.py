"""A/B tests in the browser: prepared, started, followed, decided and cancelled."""

import re

from postroom.domain.audience.lists.list_rights import ALL_RIGHTS
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.messages import MessageStatus
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.draft_contents import ContentChange
from tests.integration.usecases.messages.ab_testing import (
    WHO,
    click,
    deliver,
    prepared,
    running,
)
from tests.web.site import Site


async def test_a_test_is_prepared_and_started(site: Site) -> None:
    services = site.services
    await services.lists.create("news", "News", "news@contoso.example")
    await services.subscriptions.add("news", "bob@example.com", verified=True)
    change = ContentChange(list_name="news", subject="One", body="<p>Hi</p>", text="")
    draft = await services.composing.create(change, WHO)
    editor = await site.user(Role.EDITOR)
    place = f"/messages/{draft.ref}/ab-test"
    assert f'href="{place}"' in (await editor.get(f"/messages/{draft.ref}/edit")).text
    empty = (await editor.get(place)).text
    assert "Add a variant" in empty
    assert "Start the test" not in empty
    added = await editor.post(f"{place}/variants", {"subject": "Two <b>", "from_name": ""})
    assert added.headers["location"] == place
    by_content = await editor.post(f"{place}/variants", {"then": "edit"})
    third = by_content.headers["location"].split("/")[2]
    page = (await editor.get(place)).text
    assert "Two &lt;b&gt;" in page
    assert "Start A/B test" in page
    # Scheduling one of them alone would send it to everybody.
    alone = await editor.get(f"/messages/{third}/schedule")
    assert alone.headers["location"] == f"/messages/{third}/ab-test"
    await editor.post(f"/messages/{third}/schedule", {})
    assert (await services.messages.get(third)).status is MessageStatus.DRAFT

    for form, words in (
        ({"share": "x", "wait": "60"}, "whole number"),
        ({"share": "99", "wait": "60"}, "between 2 and 90"),
    ):
        wrong = await editor.post(f"{place}/start", form)
        assert (wrong.status_code, words in wrong.text) == (422, True)
    await services.composing.change(third, ContentChange(body="{{ nothing }}"), WHO)
    wrong = await editor.post(f"{place}/start", {"share": "30", "wait": "60"})
    assert (wrong.status_code, "Variant C cannot be sent" in wrong.text) == (422, True)
    await services.composing.change(third, ContentChange(body="<p>Hello</p>"), WHO)
    writer = await site.user(Role.WRITER)
    assert "Start A/B test" not in (await writer.get(place)).text
    assert (await writer.post(f"{place}/start", {"share": "20", "wait": "60"})).status_code == 403
    started = await editor.post(f"{place}/start", {"share": "30", "wait": "60"})
    assert started.status_code == 303
    test = await services.ab_tests.get(draft.ref)
    assert (test.share, test.wait_minutes, len(test.variants)) == (30, 60, 3)
    assert "scheduled in a few seconds" in (await editor.get(place)).text


async def test_numbers_are_side_by_side_and_a_person_chooses(site: Site) -> None:
    services = site.services
    test = await running(services, services.store, people=160, track="aggregate")
    second = test.variants[1]
    await click(services, second, 25)
    editor = await site.user(Role.EDITOR)
    page = (await editor.get(f"/messages/{second}/ab-test")).text
    assert "So far, variant B is best by number of clicks by people" in page
    assert "with over 99.9% confidence" in page
    assert 'hx-trigger="every 5s"' in page
    part = await editor.get(f"/messages/{second}/ab-test", headers={"HX-Request": "true"})
    assert "<main" not in part.text
    assert "B: Subject B" in part.text
    message = (await editor.get(f"/messages/{second}")).text
    assert f'Variant B of an <a href="/messages/{second}/ab-test">A/B test</a>' in message
    assert "follow-up" not in message

    place = f"/messages/{test.key}/ab-test"
    [chosen] = re.findall(
        rf'href="({place}/winner\?winner={second})"', (await editor.get(place)).text
    )
    question = await editor.get(chosen)
    assert "Send variant B to the rest?" in question.text
    assert (await editor.get(f"{place}/winner?winner=nobody")).status_code == 404
    done = await editor.post(f"{place}/winner", {"winner": second})
    assert done.status_code == 303
    await services.ab_tests.advance(test.key)
    page = (await editor.get(place)).text
    assert "Variant B was chosen by" in page
    assert "Cancel test" not in page
    rest = await services.ab_tests.get(test.key)
    sent = await deliver(services.store, rest.rest)
    page = (await editor.get(f"/messages/{sent.ref}")).text
    assert "Sent to everyone who is not a recipient of a variant of its" in page


async def test_a_test_is_removed_or_cancelled_after_a_question(site: Site) -> None:
    services = site.services
    test = await prepared(services, services.store, people=4)
    editor = await site.user(Role.EDITOR)
    place = f"/messages/{test.key}/ab-test"
    assert "become ordinary drafts" in (await editor.get(f"{place}/cancel")).text
    removed = await editor.post(f"{place}/cancel", {})
    assert removed.headers["location"] == f"/messages/{test.key}/edit"
    assert await services.ab_tests.rows.of(test.key) is None

    await services.ab_tests.create(test.key, WHO)
    await services.ab_tests.add(test.key, ContentChange(subject="Again"), WHO)
    await services.ab_tests.start(test.key)
    assert "Nothing is sent to the rest" in (await editor.get(f"{place}/cancel")).text
    assert (await editor.post(f"{place}/cancel", {})).status_code == 303
    await services.ab_tests.advance(test.key)
    assert "Cancelled" in (await editor.get(place)).text
    assert (await services.messages.get(test.key)).status is MessageStatus.DRAFT
    assert (await editor.get(f"/messages/{test.variants[1]}/ab-test")).status_code == 200


async def test_users_who_may_not_see_a_variant_do_not_see_the_test(site: Site) -> None:
    services = site.services
    test = await prepared(services, services.store, people=4)
    await services.lists.create("secret", "Secret", "news@contoso.example")
    member = await site.user(Role.MEMBER)
    assert member.user is not None
    name = (await services.messages.get(test.key)).list_name
    await services.list_grants.set(member.user.principal, ListName(name), ALL_RIGHTS)
    place = f"/messages/{test.key}/ab-test"
    assert (await member.get(place)).status_code == 200
    await services.composing.change(test.variants[1], ContentChange(list_name="secret"), WHO)
    for path in (place, f"{place}/cancel", f"{place}/winner?winner={test.key}"):
        assert (await member.get(path)).status_code == 404, path
    for path in ("variants", "start", "winner", "cancel"):
        form = {"share": "20", "wait": "60"}
        assert (await member.post(f"{place}/{path}", form)).status_code == 404, path
