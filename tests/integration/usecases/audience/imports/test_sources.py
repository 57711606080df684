"""The built-in field `source` says how somebody came to a list, without anybody filling it in."""

from __future__ import annotations

import io

import pytest

from postroom.domain.audience.consent import BY_API, BY_COMMAND, ConsentSource
from postroom.domain.audience.fields import Field
from postroom.domain.messages.audiences import Audience
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.making import BODIES, make_list, now
from tests.integration.usecases.pages import check_pages, fan_out_whole


def lines(*texts: str) -> io.BytesIO:
    return io.BytesIO("\n".join(texts).encode())


async def selected(services: Services, rule: str) -> list[str]:
    return [each async for each in services.segments.select("contoso1", rule)]


@pytest.fixture
async def people(services: Services) -> None:
    """Somebody from everywhere."""
    name = await make_list(services)
    subscriptions = services.subscriptions
    for email, origin in {
        "form@example.com": ConsentSource("sign-up page"),
        "site@example.com": ConsentSource("form on https://www.example.com"),
        "program@example.com": BY_API,
        "other@example.com": ConsentSource("preferences page"),
    }.items():
        await subscriptions.subscribe(name, email, source=origin)
        known = await subscriptions.get(name, email)
        await subscriptions.confirm(name, known.guid)
    await subscriptions.add(name, "team@example.com", verified=True)
    await subscriptions.add(name, "api@example.com", verified=True, source=BY_API)
    await subscriptions.add(name, "shell@example.com", verified=True, source=BY_COMMAND)
    own = {"source": "Fair in Basel"}
    await subscriptions.add(name, "fair@example.com", verified=True, attributes=own)
    file = lines("email,source", "file@example.com,", "paper@example.com,Paper form")
    await services.imports.import_csv(name, file, verified=True)


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("form", ["form", "site"]),
        ("api", ["api", "program"]),
        ("preferences", ["other"]),
        ("team", ["shell", "team"]),
        ("import", ["file"]),
        ("Fair in Basel", ["fair"]),
        ("Paper form", ["paper"]),
    ],
)
async def test_rules_select_by_where_subscribers_come_from(
    services: Services, value: str, names: list[str]
) -> None:
    found = await selected(services, f'source = "{value}"')
    assert found == [f"{each}@example.com" for each in names]


@pytest.mark.usefixtures("people")
async def test_nothing_overwrites_where_someone_came_from(services: Services) -> None:
    again = lines("email,first_name", "form@example.com,Ann", "new@example.com,Bob")
    await services.imports.import_csv("contoso1", again, verified=True)
    await services.subscriptions.edit("contoso1", "form@example.com", note="met in Bern")
    form = await services.subscriptions.get("contoso1", "form@example.com")
    assert (form.source, form.attributes) == ("form", {"first_name": "Ann"})
    moved = await services.subscriptions.change_address(
        "contoso1", "form@example.com", "now@example.com"
    )
    assert moved.source == "form"
    assert await selected(services, 'source = "import"') == ["file@example.com", "new@example.com"]


@pytest.mark.usefixtures("people")
async def test_messages_exports_and_explanations_know_it(services: Services, store: Store) -> None:
    await services.segments.create("contoso1", "by-form", 'source = "form"')
    rows = "".join([each async for each in services.exports.export_csv("contoso1")])
    assert "form@example.com" in rows
    assert ",form" in next(each for each in rows.splitlines() if each.startswith("form@"))
    explained = await services.segments.explain("contoso1", "by-form", "site@example.com")
    assert explained.reason.holds
    audience = Audience(segment="by-form")
    message = await services.messages.create("contoso1", "News", BODIES, now(), audience=audience)
    fanned = await fan_out_whole(store, message.ref)
    assert await check_pages(store, fanned) == ["form@example.com", "site@example.com"]


async def test_a_list_may_still_fill_in_the_field_itself(services: Services) -> None:
    name = await make_list(services)
    await services.fields.declare(name, [Field("city")])
    await services.subscriptions.add(name, "ann@example.com")
    changed = await services.subscriptions.edit(
        name, "ann@example.com", attributes={"source": "Radio"}
    )
    assert (changed.source, changed.known["source"]) == ("team", "Radio")
    assert await selected(services, 'source = "radio"') == ["ann@example.com"]
