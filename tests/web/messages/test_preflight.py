"""The checks before sending: beside the editor, and in the question that nobody gets past by
accident."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom.composing.content_findings import Level
from postroom.domain.audience.fields import Field
from postroom.domain.messages.audiences import Audience, Exclusion
from postroom.domain.messages.messages import MessageFormat, MessageStatus
from postroom.sender.message_preflight import PreflightService
from postroom.services.accounts.users import Role
from postroom.services.audience.fields.field_gaps import FieldGaps
from postroom.services.messages.checks.link_checks import LinkTrial
from postroom.services.messages.checks.preflight import EXAMPLE_TEXTS
from postroom.services.messages.domains.domain_checks import DomainChecks, OurSending
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.message_contents import NewBodies
from postroom.web.admin.messages.drafting import preflight
from postroom.web.rendering.templating import STATIC
from tests.services.dns_server import running_dns_server
from tests.services.pictures import picture
from tests.services.waiting import BUSY, until
from tests.web.site import Site, running_site

BODY = (
    '<p style="display: flex">Hello {{ email }}</p><img src="https://x.contoso.com/a.svg">'
    '<a href="https://www.example.org/x">x</a><video></video>'
)


@pytest.fixture
async def news(site: Site) -> Site:
    await site.services.lists.create("news", "The news", "news@contoso.example")
    await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    await site.services.subscriptions.add("news", "bob@example.com")
    return site


async def draft(site: Site, body: str = BODY, **fields: object) -> str:
    change = ContentChange(list_name="news", subject="Winter", body=body, text="", **fields)  # type: ignore[arg-type]
    return (await site.services.composing.create(change, "ann")).ref


async def test_the_panel_says_who_receives_a_message_and_what_is_wrong_with_it(
    news: Site,
) -> None:
    viewer = await news.user(Role.VIEWER)
    ref = await draft(news)
    panel = ""

    async def is_complete() -> bool:
        nonlocal panel
        panel = (await viewer.get(f"/messages/{ref}/preflight")).text
        return 'data-checking="0"' in panel

    await until(is_complete, "all checks are done")
    assert "<strong>1</strong> subscriber will receive this message" in panel
    assert "they have not confirmed" in panel
    assert "bob@example.com" in panel
    assert "Not shown everywhere" in panel
    assert "&lt;video&gt; element" in panel
    assert "display:flex (not in Outlook for Windows)" in panel
    assert "to a placeholder: https://www.example.org/x" in panel
    assert "without an alternative text" in panel
    assert "Blocks sending" not in panel
    incomplete = await news.services.composing.create(ContentChange(), "ann")
    panel = (await viewer.get(f"/messages/{incomplete.ref}/preflight")).text
    assert panel.count("Blocks sending") == 3
    assert (await viewer.get("/messages/123456789012345678/preflight")).status_code == 404


async def test_a_list_without_subscribers_blocks_only_a_message_that_is_sent_now(
    news: Site,
) -> None:
    await news.services.lists.create("empty", "Empty", "empty@example.com")
    viewer = await news.user(Role.VIEWER)
    change = ContentChange(list_name="empty", subject="Hi", body="<p>Hi</p>")
    message = await news.services.composing.create(change, "ann")
    panel = (await viewer.get(f"/messages/{message.ref}/preflight")).text
    assert 'bad">Blocks sending</span> <span>Nobody would receive this message.<' in panel
    tomorrow = ContentChange(scheduled_at=datetime.now(UTC) + timedelta(days=1))
    await news.services.composing.change(message.ref, tomorrow, "ann", etag=message.etag)
    panel = (await viewer.get(f"/messages/{message.ref}/preflight")).text
    assert "Blocks sending" not in panel
    assert "Nobody would receive this message if it were sent now." in panel


async def test_hostile_content_and_pictures_that_nobody_can_load_are_reported(news: Site) -> None:
    body = (
        "<script>alert(1)</script><p onclick='x()'>x</p>"
        '<img src="https://127.0.0.2/a.png" alt="a"><img src="http://10.0.0.7/b.png" alt="b">'
        '<a href="https://contoso.com"><img src="https://c.contoso.com/c.png" alt=""></a>'
        '<a href="https://contoso.com"><img src="https://c.contoso.com/d.png" alt="">words</a>'
        '<img src="https://c.contoso.com/e.png" alt="">'
    )
    found = await news.context.preflight.check(await draft(news, body))
    texts = {each.code: each.text for each in found.findings}
    assert "<script>, onclick of <p>, https://127.0.0.2/a.png" in texts["content-removed"]
    assert "http://10.0.0.7/b.png" in texts["picture-unreachable"]
    assert "c.png" in texts["alt-missing"]
    assert "d.png" not in texts["alt-missing"]
    assert "e.png" in texts["alt-empty"]
    assert not found.blocks_sending


async def test_links_to_this_machine_are_reported_if_emails_leave_it(tmp_path: Path) -> None:
    smtp = "smtp://127.0.0.1:9"
    for base_url, transport, is_reported in (
        ("http://localhost:8420", smtp, True),
        ("http://localhost:8420", "outbox:", False),
        ("https://lists.contoso.com", smtp, False),
    ):
        settings = {"base_url": base_url, "transport": transport}
        async with running_site(tmp_path / str(is_reported) / transport[:4], settings) as site:
            await site.services.lists.create("news", "The news", "news@contoso.example")
            found = await site.context.preflight.check(await draft(site, "<p>Hello</p>"))
            codes = {each.code: each for each in found.findings}
            assert ("base-url" in codes) is is_reported, (base_url, transport)
            if is_reported:
                assert base_url in codes["base-url"].text
                assert codes["base-url"].level is Level.WARNING


async def test_example_texts_and_links_without_a_target_are_reported(news: Site) -> None:
    catalogue = (STATIC / "editor/catalogue.js").read_text()
    assert all(each in catalogue for each in EXAMPLE_TEXTS)
    blocks = [
        {"type": "text", "html": f"<p>{EXAMPLE_TEXTS[0]}</p>"},
        {"type": "button", "text": "Read more", "link": "https://"},
    ]
    body = json.dumps({"version": 1, "blocks": blocks})
    ref = await draft(news, body, format=MessageFormat.BLOCKS)
    found = await news.context.preflight.check(ref)
    texts = {each.code: each.text for each in found.findings}
    assert EXAMPLE_TEXTS[0] in texts["example-text"]
    assert texts["link-empty"] == "1 link is without a target."


async def test_lines_are_measured_with_their_values(news: Site) -> None:
    merged = '{{ first_name | default: "friends" }}'
    condition = '{% if first_name = "Ann" %}' + "x" * 50 + "{% else %}" + "y" * 30 + "{% end %}"

    async def codes(subject: str, preheader: str) -> set[str]:
        change = ContentChange(list_name="news", subject=subject, preheader=preheader, body="<p>x")
        made = await news.services.composing.create(change, "ann")
        found = await news.context.preflight.check(made.ref)
        return {each.code for each in found.findings} & {"subject-long", "preheader-long"}

    assert await codes(f"Hello {merged}: {'x' * 40}", f"{merged} {'x' * 90}") == set()
    assert await codes(f"Hello {merged}: {'x' * 60}", "x" * 101) == {
        "subject-long",
        "preheader-long",
    }
    assert await codes(condition, condition) == set()


async def test_links_of_a_text_are_looked_at_and_those_beyond_the_limit_are_counted(
    news: Site,
) -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["10.0.0.1"]

    checks = PreflightService(
        news.context.renderer,
        news.services.pictures,
        LinkTrial(resolve),
        None,
        FieldGaps(news.services.fields, news.services.audiences),
        news.services.audiences,
        "localhost",
    )
    links = "\n".join(f"https://www.contoso.com/{number}" for number in range(103))
    text = f"Hello {{{{ email }}}}\n{links}\nhttps://www.example.org/x?for={{{{ email }}}}."
    change = ContentChange(list_name="news", subject="Winter", body="", text=text)
    ref = (await news.services.composing.create(change, "ann")).ref
    found = await checks.check(ref, seconds=20.0 * BUSY)
    await checks.close()
    texts = {each.code: each.text for each in found.findings}
    assert "https://www.example.org/x?for=subscriber@example.com" in texts["link-placeholder"]
    assert "100 links do not work" in texts["link-broken"]
    assert texts["links-untried"].startswith("4 links were not checked")
    assert set(asked) == {"www.contoso.com"}


async def test_the_number_is_the_same_everywhere(news: Site) -> None:
    await news.services.fields.declare("news", [Field("city")])
    add, editor = news.services.subscriptions.add, await news.user(Role.EDITOR)
    for name in ("carl", "dora", "emil"):
        await add("news", f"{name}@example.com", verified=True, attributes={"city": "Bern"})
    emil = await news.services.subscriptions.get("news", "emil@example.com")
    await news.services.preferences.pause(emil)
    await news.services.segments.create("news", "bern", 'city = "Bern"')
    for segment, many in (("", 3), ("bern", 2)):
        form = {"list": "news", "subject": "Hi", "format": "html", "body": "<p>x", "when": "now",
                "audience": "yes", "segment": segment}  # fmt: skip
        live = (await editor.post("/messages/preview/text", form)).text
        assert f">{many}</strong> confirmed subscribers" in live
        saved = await editor.post("/messages/new", {**form, "then": "schedule"})
        question = (await editor.get(saved.headers["location"])).text
        assert f"to {many} subscribers of news now?" in question
        assert f"<strong>{many}</strong> subscribers will receive" in question
        assert "confirmed subscribers" not in question, "the same number once more"
        assert f"Send now to {many} subscribers" in question


def test_every_reason_has_words() -> None:
    assert preflight._REASONS.keys() == {each.value for each in Exclusion}


async def test_the_question_shows_the_checks_and_an_empty_audience_is_refused(news: Site) -> None:
    editor = await news.user(Role.EDITOR)
    ref = await draft(news)
    question = await editor.get(f"/messages/{ref}/schedule")
    assert "Send now to 1 subscriber" in question.text
    assert "Not shown everywhere" in question.text

    await news.services.subscriptions.remove("news", "ann@example.com")
    question = await editor.get(f"/messages/{ref}/schedule")
    assert "Nobody would receive this message" in question.text
    assert "Send now</button>" not in question.text
    refused = await editor.post(f"/messages/{ref}/schedule", {})
    assert refused.status_code == 422
    assert (await news.services.messages.get(ref)).status is MessageStatus.DRAFT

    later = await draft(news, scheduled_at=datetime.now(UTC) + timedelta(days=1))
    question = await editor.get(f"/messages/{later}/schedule")
    assert "Nobody would receive this message" in question.text
    scheduled = await editor.post(f"/messages/{later}/schedule", {})
    assert scheduled.status_code == 303
    assert (await news.services.messages.get(later)).status is MessageStatus.PENDING


async def test_what_has_gone_since_a_message_was_scheduled_is_reported(news: Site) -> None:
    services = news.services
    await services.fields.declare("news", [Field("city", required=True), Field("age")])
    await services.segments.create("news", "bern", 'city = "Bern" or age is empty')
    text = NewBodies(None, "Hello {{ city }}")
    at = datetime.now(UTC) + timedelta(days=1)
    message = await services.messages.create("news", "Hi", text, at, audience=Audience("bern"))
    titled = await services.messages.create("news", "{{ city }}", text, at)
    assert not (await news.context.preflight.check(message.ref)).blocks_sending

    await services.field_changes.remove("news", "city")
    found = await news.context.preflight.check(message.ref)
    errors = {each.code: each.text for each in found.findings if each.level is Level.ERROR}
    assert errors.keys() == {"field-missing", "incomplete-segment"}
    assert "uses the field city, which the list no longer has" in errors["field-missing"]
    assert "there is no field city" in errors["incomplete-segment"]
    assert found.audience.will_receive == 0
    found = await news.context.preflight.check(titled.ref)
    assert [each.code for each in found.findings if each.level is Level.ERROR] == [
        "incomplete-subject"
    ]
    viewer = await news.user(Role.VIEWER)
    panel = await viewer.get(f"/messages/{message.ref}/preflight")
    assert panel.status_code == 200
    assert panel.text.count("Blocks sending") == 2


async def test_the_size_is_that_of_the_longest_values_and_every_part_is_looked_at(
    news: Site,
) -> None:
    await news.services.fields.declare("news", [Field("story", max_length=1000)])
    for name, story in (("zoe", "x" * 1000), ("yan", "")):
        await news.services.subscriptions.add(
            "news", f"{name}@example.com", verified=True, attributes={"story": story}
        )
    merged = '{{ story | default: "" }}'
    ref = await draft(
        news,
        f"<p>{merged * 60}{{% if story is empty %}}{'y' * 500}"
        f'<img src="https://localhost/a.png">{{% else %}}{"z" * 45_000}{{% end %}}</p>',
    )
    await news.context.preflight.check(ref, seconds=10.0 * BUSY)
    found = {each.code: each.text for each in (await news.context.preflight.check(ref)).findings}
    assert "KB for the subscriber with the longest values" in found["size"]
    assert "1 picture is without an alternative text" in found["alt-missing"]


async def test_paused_subscribers_are_left_out_of_the_count_of_a_whole_list(news: Site) -> None:
    services, seconds = news.services, 10.0 * BUSY
    for name in ("pia", "pit"):
        subscriber = await services.subscriptions.add("news", f"{name}@example.com", verified=True)
        await services.preferences.pause(subscriber)
    before = (await services.audiences.count("news")).will_receive
    ref = await draft(news, "<p>x</p>")
    audience = (await news.context.preflight.check(ref, seconds=seconds)).audience
    assert (audience.will_receive, audience.excluded["paused"]) == (before - 2, 2)


async def test_large_pictures_are_named(news: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from postroom.services.messages.checks import preflight as checks

    monkeypatch.setattr(checks, "HEAVY_PICTURES", 100)
    stored, _ = await news.services.pictures.upload(picture("JPEG"), "a.jpg", by="ann")
    host = news.context.base_url
    ref = await draft(news, f'<p>x</p><img alt="" src="{host}{stored.path}">')
    found = await news.context.preflight.check(ref)
    assert "pictures-heavy" in {each.code for each in found.findings}


async def test_slow_checks_run_in_the_background(news: Site) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["10.0.0.1"]

    await news.services.lists.edit("news", from_address="news@contoso.com")
    ref = await draft(news, '<p>x</p><a href="https://www.fabrikam.com/">x</a>')
    with running_dns_server({"contoso.com": ["v=spf1 mx -all"]}) as resolver:
        checks = PreflightService(
            news.context.renderer,
            news.services.pictures,
            LinkTrial(resolve),
            DomainChecks(news.services.dkim_keys, OurSending("key"), resolver),
            FieldGaps(news.services.fields, news.services.audiences),
            news.services.audiences,
            "localhost",
        )
        first = await checks.check(ref)
        assert first.checking == 3
        assert {"link-broken", "spf", "dmarc"}.isdisjoint(each.code for each in first.findings)
        done = await checks.check(ref, seconds=10.0 * BUSY)
        await checks.close()
    assert done.checking == 0
    texts = {each.code: each.text for each in done.findings}
    assert "which is not a public address" in texts["link-broken"]
    assert "there is no key at key._domainkey.contoso.com" in texts["dkim"]
    assert "DMARC of contoso.com: there is none" in texts["dmarc"]
    assert "spf" not in texts
