"""Values of fields: copied to the pages when a message is queued, and kept there."""

from typing import Any

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import Message, MessageFormat, MessageStatus
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.message_contents import InboxLines, NewBodies
from postroom.storage import Store
from postroom.wiring import Services
from tests.contract.conftest import ON_ONE_ENGINE
from tests.integration.usecases.making import FROM, address_of, days, fill, now
from tests.integration.usecases.pages import check_pages, fan_out_whole

NEWS = ListName("news")
FIELDS = [
    Field("city", required=True),
    Field("plan", default="free"),
    Field("age", FieldType.INTEGER),
    Field("vip", FieldType.BOOLEAN),
    Field("topics", FieldType.CHOICES, choices=("News", "Events")),
]
BODIES = NewBodies(
    '<p>{{ first_name | default: "there" }}, {{ city }}</p>',
    '{{ plan }} {{ age | default: "?" }} {{ vip | default: "-" }} {{ topics | default: "-" }}',
)


@pytest.fixture
async def news(services: Services, store: Store) -> None:
    await services.lists.create(NEWS, "The news", FROM)
    await services.fields.declare(NEWS, FIELDS)
    await fill(store, NEWS, 3)


async def know(services: Services, number: int, **attributes: Any) -> None:
    await services.subscriptions.edit(NEWS, address_of(number), attributes=attributes)


async def values(services: Services, message: Message) -> list[tuple[str, ...]]:
    return [each async for page in services.pages.whole(message) for each in page.emails.values()]


async def test_pages_have_the_values_of_the_fields_that_the_message_uses(
    services: Services, store: Store, news: None
) -> None:
    await know(services, 0, first_name="Ann", city="Bern", age=30, vip=True, topics=["News"])
    await know(services, 1, city="Basel", plan="pro", age=0, vip=False, last_name="Unused")
    message = await services.messages.create(
        NEWS, "For {{ city }}", BODIES, now(), lines=InboxLines("{{ joined }}")
    )
    assert message.fields == ("city", "joined", "first_name", "plan", "age", "vip", "topics")
    done = await fan_out_whole(store, message.ref)
    today = now().date().isoformat()
    assert await values(services, done) == [
        ("Bern", today, "Ann", "free", "30", "yes", "News"),
        ("Basel", today, "", "pro", "0", "no", ""),
        ("", today, "", "free", "", "", ""),
    ]
    await know(services, 0, first_name="Anna")
    assert (await values(services, done))[0][2] == "Ann", "as it was when the message was queued"


@ON_ONE_ENGINE
async def test_a_field_that_may_be_empty_or_is_unknown_is_refused_with_its_place(
    services: Services, store: Store, news: None
) -> None:
    for bodies, field, problem in (
        (NewBodies("<p>\n {{ age }}</p>"), "html", "line 2, column 2: {{ age }} may be empty"),
        (NewBodies(None, "{{ town }}"), "text", "line 1, column 1: there is no merge field"),
        (NewBodies("<p onclick='{{ city }}'>x</p>"), "html", "cannot be used in a script"),
    ):
        with pytest.raises(Invalid) as caught:
            await services.messages.create(NEWS, "Hi", bodies, now())
        assert caught.value.field == field
        assert problem in caught.value.problem
    message = await services.messages.create(NEWS, "Hi", BODIES, days(1))
    other = await services.lists.create("other", "Others", FROM)
    with pytest.raises(Invalid, match="uses the field city, which this list does not have"):
        await services.messages.edit(message.ref, list_name=other.name)
    with pytest.raises(Invalid, match="subject: line 1, column 1"):
        await services.messages.edit(message.ref, subject="{{ town }}")
    edited = await services.messages.edit(message.ref, bodies=NewBodies(None, "{{ city }}"))
    assert edited.fields == ("first_name", "city")


@ON_ONE_ENGINE
async def test_a_message_whose_fields_are_gone_pauses_instead_of_leaving_blanks(
    services: Services, store: Store, news: None
) -> None:
    await know(services, 0, city="Bern")
    lines = InboxLines("{{ joined }}")
    message = await services.messages.create(NEWS, "For {{ city }}", BODIES, now(), lines=lines)
    await services.field_changes.remove(NEWS, "city")
    await services.field_changes.remove(NEWS, "plan")
    paused = await fan_out_whole(store, message.ref)
    assert paused.status is MessageStatus.PAUSED
    assert paused.reason == "it uses the fields city, plan, which the list no longer has"

    await services.fields.declare(NEWS, FIELDS)
    await services.message_states.resume(message.ref)
    await services.field_changes.change(NEWS, "city", Field("town", required=True))
    done = await fan_out_whole(store, message.ref)
    assert (await values(services, done))[0][0] == "Bern", "while it is being renamed"

    later = await services.messages.create(NEWS, "Hi", NewBodies(None, "{{ town }}"), now())
    await services.field_changes.finish_rename(NEWS)
    await services.field_changes.change(NEWS, "town", Field("place"))
    await services.field_changes.finish_rename(NEWS)
    paused = await fan_out_whole(store, later.ref)
    assert paused.reason == "it uses the field town, which the list no longer has"


@ON_ONE_ENGINE
async def test_every_format_uses_the_fields_of_its_list(services: Services, news: None) -> None:
    blocks = '{"version": 1, "blocks": [{"type": "heading", "text": "Hello {{ city }}"}]}'
    mjml = "<mjml><mj-body><mj-section><mj-column><mj-text>{{ city }}</mj-text></mj-column>"
    mjml += "</mj-section></mj-body></mjml>"
    for format, body in (
        ("markdown", "# Hello {{ city }}"),
        ("blocks", blocks),
        ("mjml", mjml),
        ("html", "<p>{{ city }}</p>"),
    ):
        change = ContentChange(
            list_name=NEWS, subject="Hi", format=MessageFormat(format), body=body
        )
        draft = await services.composing.create(change, "ann")
        scheduled = await services.composing.schedule(draft.ref, days(1))
        assert scheduled.fields == ("city",)
        assert "{{ city }}" in ((await services.messages.bodies(scheduled)).text or "")


CONDITIONS = NewBodies(
    '<p>{% if city = "Bern" and age >= 18 %}Adults{% else %}Others{% end %} {{ plan }}</p>',
    '{% if city = "bern" and age >= 18 %}Adults{% end %}{% if email contains "1@" %}One{% end %}',
)


async def test_pages_have_what_each_condition_says_of_each_recipient(
    services: Services, store: Store, news: None
) -> None:
    await know(services, 0, city="Bern", age=30)
    await know(services, 1, city="Basel", age=30)
    message = await services.messages.create(
        NEWS, "{% if plan is empty %}Upgrade{% else %}News{% end %}", CONDITIONS, now()
    )
    assert message.fields == ("plan",)
    assert message.conditions == (
        "plan is empty",
        'city = "Bern" and age >= 18',
        'city = "bern" and age >= 18',
        'email contains "1@"',
    )
    done = await fan_out_whole(store, message.ref)
    assert await values(services, done) == [
        ("free", "1", "1", "1", ""),
        ("free", "1", "", "", "1"),
        ("free", "1", "", "", ""),
    ]
    assert (await services.messages.get(message.ref)).conditions == message.conditions


@ON_ONE_ENGINE
async def test_a_condition_is_checked_when_it_is_saved_and_again_when_it_is_sent(
    services: Services, store: Store, news: None
) -> None:
    for subject, bodies, field, problem in (
        (
            "Hi",
            NewBodies("<p>\n{% if town = 1 %}x{% end %}</p>"),
            "html",
            "line 2, column 7: there",
        ),
        ("{% if vip = true %}x{% end %}", BODIES, "subject", "would be empty for some"),
        ("Hi", NewBodies("<p {% if vip = true %}x{% end %}></p>x"), "html", "cannot be used in a"),
    ):
        with pytest.raises(Invalid) as caught:
            await services.messages.create(NEWS, subject, bodies, now())
        assert caught.value.field == field
        assert problem in caught.value.problem
    message = await services.messages.create(NEWS, "Hi", CONDITIONS, now())
    other = await services.lists.create("other", "Others", FROM)
    with pytest.raises(Invalid, match="uses the field plan, which this list does not have"):
        await services.messages.edit(message.ref, list_name=other.name)
    await services.field_changes.change(NEWS, "age", Field("years", FieldType.INTEGER))
    await know(services, 0, city="Bern", years=30)
    renamed = await fan_out_whole(store, message.ref)
    assert (await values(services, renamed))[0] == ("free", "1", "1", "")

    later = await services.messages.create(
        NEWS, "Hi", NewBodies(None, "{% if vip = true %}a{% end %}b"), now()
    )
    years = Field("years", FieldType.INTEGER)
    await services.fields.declare(NEWS, [*FIELDS[:2], years, Field("vip"), FIELDS[4]])
    paused = await fan_out_whole(store, later.ref)
    assert paused.status is MessageStatus.PAUSED
    assert paused.reason.startswith("its condition vip = true no longer works: vip must be")
    await services.field_changes.remove(NEWS, "vip")
    await services.message_states.resume(later.ref)
    assert (await fan_out_whole(store, later.ref)).reason.startswith("it uses the field vip, which")


@ON_ONE_ENGINE
async def test_a_message_without_fields_reads_none(
    services: Services, store: Store, news: None
) -> None:
    plain = NewBodies(None, "Hello {{ email }}")
    done = await fan_out_whole(
        store, (await services.messages.create(NEWS, "Hi", plain, now())).ref
    )
    assert done.fields == ()
    async for page in services.pages.whole(done):
        assert not page.emails.has_values


@pytest.mark.parametrize("engine", ["sqlite", "azure"], indirect=True)
async def test_long_values_make_smaller_pages_that_every_store_can_hold(
    services: Services, store: Store
) -> None:
    await services.lists.create(NEWS, "The news", FROM)
    names = [f"text{number}" for number in range(15)]
    await services.fields.declare(NEWS, [Field(name, default="ä" * 1000) for name in names])
    await fill(store, NEWS, 120)
    text = "".join(f"{{{{ {name} }}}}" for name in names)
    message = await services.messages.create(NEWS, "Hi", NewBodies(None, text), now())
    done = await fan_out_whole(store, message.ref)
    assert len(await check_pages(store, done)) == 120
    assert done.queued_pages == 30  # 4 emails with 30,000 bytes each
