"""For how many recipients a field is empty, and how long its longest value is."""

from postroom.domain.audience.fields import Field
from postroom.domain.messages.audiences import Audience
from postroom.services.audience.fields.field_gaps import FieldGap, FieldGaps
from postroom.services.audience.targeting.audiences import excluded_examples
from postroom.wiring import Services


async def test_only_those_who_receive_emails_are_counted(services: Services) -> None:
    news = (await services.lists.create("news", "News", "news@contoso.com")).name
    add = services.subscriptions.add
    await add(news, "ann@example.com", verified=True, attributes={"first_name": "Ann"})
    await add(news, "bob@example.com", verified=True, attributes={"last_name": "Bee"})
    await add(news, "carol@example.com", verified=True)
    await add(news, "dora@example.com", verified=False)
    await add(news, "eve@example.com", verified=True)
    await services.subscriptions.edit(news, "eve@example.com", blocked="asked")
    gaps = FieldGaps(services.fields, services.audiences)
    assert await gaps.count(news, ["first_name", "last_name", "email"]) == {
        "first_name": FieldGap(2, "Ann"),
        "last_name": FieldGap(2, "Bee"),
        "email": FieldGap(0, "carol@example.com"),
    }


async def test_a_segment_and_exclusions_are_respected(services: Services) -> None:
    news = (await services.lists.create("news", "News", "news@contoso.com")).name
    staff = (await services.lists.create("staff", "Staff", "news@contoso.com")).name
    await services.fields.declare(news, [Field("city"), Field("plan")])
    add = services.subscriptions.add
    await add(news, "ann@example.com", verified=True, attributes={"city": "Bern", "plan": "pro"})
    await add(news, "bob@example.com", verified=True, attributes={"city": "Bern"})
    await add(news, "carol@example.com", verified=True, attributes={"city": "Oslo, far away"})
    await add(news, "dan@example.com", verified=True, attributes={"city": "Bern"})
    await add(staff, "dan@example.com", verified=True)
    await services.segments.create(news, "bern", 'city = "Bern"')
    gaps = FieldGaps(services.fields, services.audiences)
    audience = Audience("bern", exclude_lists=(staff,))
    assert await gaps.count(news, ["city", "plan"], audience) == {
        "city": FieldGap(0, "Bern"),
        "plan": FieldGap(1, "pro"),
    }


async def test_each_reason_of_exclusion_has_examples(services: Services) -> None:
    news = (await services.lists.create("news", "News", "news@contoso.com")).name
    more = (await services.lists.create("more", "More", "news@contoso.com")).name
    staff = (await services.lists.create("staff", "Staff", "news@contoso.com")).name
    for name in (news, more):
        await services.fields.declare(name, [Field("city")])
    await services.segments.create(news, "bern", 'city = "Bern"')
    await services.segments.create(news, "tests", 'email starts with "test"')
    add, bern = services.subscriptions.add, {"city": "Bern"}
    await add(news, "ann@example.com", verified=True, attributes=bern)
    await add(more, "Ann@example.com", verified=True, attributes=bern)
    await add(news, "blocked@example.com", verified=True, attributes=bern)
    await services.subscriptions.edit(news, "blocked@example.com", blocked="asked")
    await add(more, "oslo@example.com", verified=True)
    await add(news, "test@example.com", verified=True, attributes=bern)
    for number in range(5):
        await add(news, f"unconfirmed{number}@example.com")
    await add(news, "staff@example.com", verified=True, attributes=bern)
    await add(staff, "staff@example.com", verified=True)
    audience = Audience("bern", ("tests",), (staff,), (more,))
    counted = await services.audiences.count(news, audience)
    found = await excluded_examples(services.audiences, news, audience, counted.excluded)
    assert found == {
        "unconfirmed": [f"unconfirmed{number}@example.com" for number in range(3)],
        "blocked": ["blocked@example.com"],
        "outside_segment": ["oslo@example.com"],
        "excluded_segment": ["test@example.com"],
        "excluded_list": ["staff@example.com"],
        "duplicate": ["ann@example.com"],
    }
    assert found.keys() == counted.excluded.keys()
