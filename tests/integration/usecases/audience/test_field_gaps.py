"""For how many recipients a field is empty."""

from postroom.services.audience.field_gaps import FieldGaps
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
    gaps = FieldGaps(services.store, services.fields)
    assert await gaps.count(news, ["first_name", "last_name", "email"]) == {
        "first_name": 2,
        "last_name": 2,
        "email": 0,
    }
