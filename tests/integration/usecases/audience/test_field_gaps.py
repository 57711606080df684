"""For how many recipients a field is empty, and how long its longest value is."""

from postroom.services.audience.fields.field_gaps import FieldGap, FieldGaps
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
    assert await gaps.count([news], ["first_name", "last_name", "email"]) == {
        "first_name": FieldGap(2, "Ann"),
        "last_name": FieldGap(2, "Bee"),
        "email": FieldGap(0, "carol@example.com"),
    }
