"""Fields that are declared once and apply to all lists."""

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import EVERY_LIST, ListName
from postroom.domain.errors import Exists, Invalid, NotNow
from postroom.domain.messages.audiences import Audience
from postroom.services.audience.fields.field_changes import UnfinishedRenames
from postroom.storage import Store
from postroom.wiring import Services
from tests.contract.conftest import ON_ONE_ENGINE
from tests.integration.usecases.faults import Fate, Fated, dies
from tests.integration.usecases.making import make_list

A, B = ListName("a"), ListName("b")
ANN, BOB = "ann@example.com", "bob@example.com"
PLAN = Field("plan", FieldType.CHOICE, choices=("free", "pro"), default="free")

pytestmark = ON_ONE_ENGINE


@pytest.fixture
async def lists(services: Services) -> None:
    for name in (A, B):
        await make_list(services, name)
    await services.fields.declare(EVERY_LIST, [PLAN])
    await services.fields.declare(A, [Field("city")])
    await services.subscriptions.add(A, ANN, verified=True, attributes={"plan": "PRO"})
    await services.subscriptions.add(B, BOB, verified=True, attributes={"plan": "pro"})


async def test_a_shared_field_is_in_force_on_every_list(services: Services, lists: None) -> None:
    for name, email in ((A, ANN), (B, BOB)):
        assert (await services.subscriptions.get(name, email)).attributes == {"plan": "pro"}
        assert (await services.segments.preview(name, 'plan = "pro"')).count == 1
        assert "plan" in await services.audiences.merge_fields(name)
    with pytest.raises(Invalid, match="must be one of free, pro"):
        await services.subscriptions.edit(B, BOB, attributes={"plan": "gold"})
    await services.segments.create(A, "pro", 'plan = "pro"')
    both = await services.audiences.count(A, Audience("pro", more_lists=(B,)))
    assert both.will_receive == 2
    later = await make_list(services, "later")
    assert [each.name for each in (await services.fields.of(later)).fields.declared] == ["plan"]
    assert [each.name for each in (await services.fields.get(A)).fields.own] == ["city"]


async def test_a_name_is_declared_once(services: Services, lists: None) -> None:
    with pytest.raises(Invalid, match="plan is a field of all lists: choose another name"):
        await services.field_changes.add(A, Field("plan"))
    with pytest.raises(Invalid, match="the list a has its own field city: rename or remove"):
        await services.field_changes.add(EVERY_LIST, Field("city"))
    with pytest.raises(Invalid, match="the list a has its own field city"):
        await services.field_changes.rename(EVERY_LIST, "plan", "city")
    with pytest.raises(Exists):
        await services.field_changes.add(EVERY_LIST, PLAN)


async def test_renaming_renames_values_and_rules_of_every_list(
    services: Services, store: Store, lists: None
) -> None:
    """The scheduler finishes it, wherever it was interrupted."""
    await services.segments.create(B, "pro", 'plan = "pro"')
    assert (await services.field_changes.count_values(EVERY_LIST, "plan", seconds=60)).count == 2
    await services.field_changes.rename(EVERY_LIST, "plan", "tariff")
    for writes in range(20):
        fated = Services(Fated(store, Fate(writes)))
        renames = UnfinishedRenames(fated.store, fated.field_changes)
        if not await dies(renames.finish()):
            break
        assert (await services.segments.preview(A, 'tariff = "pro"')).count == 1
    assert writes > 2
    for name, email in ((A, ANN), (B, BOB)):
        assert (await services.subscriptions.get(name, email)).attributes == {"tariff": "pro"}
    assert (await services.segments.get(B, "pro")).rule == 'tariff = "pro"'
    [field] = (await services.fields.get(EVERY_LIST)).fields.own
    assert (field.name, field.formerly) == ("tariff", "")


async def test_a_removed_field_is_gone_from_every_list(services: Services, lists: None) -> None:
    await services.field_changes.remove(EVERY_LIST, "plan")
    with pytest.raises(Invalid, match="there is no field plan"):
        await services.segments.preview(B, 'plan = "pro"')


async def test_no_list_can_take_the_former_name_of_a_shared_field_that_is_being_renamed(
    services: Services, lists: None
) -> None:
    await services.field_changes.rename(EVERY_LIST, "plan", "tariff")
    with pytest.raises(NotNow, match="plan is still being renamed to tariff"):
        await services.fields.declare(A, [Field("plan")])
    await services.field_changes.finish_rename(EVERY_LIST)
    await services.fields.declare(A, [Field("plan")])
