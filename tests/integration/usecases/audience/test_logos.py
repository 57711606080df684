"""A list's looks: kept with it, and its pictures go with it."""

import pytest

from postroom.domain.errors import Invalid, NoSuch, Overtaken
from postroom.services import entities
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.making import FROM, make_list
from tests.unit.audience.test_images import jpeg, png


async def pictures(store: Store) -> list[str]:
    return [each.name for each in (await store.container(entities.LOGOS).list()).blobs]


async def test_what_a_list_looks_like_is_kept(services: Services) -> None:
    made = await services.lists.create(
        "garden", "Garden", FROM, public=False, signup_text="One\r\ntwo", colour="#FA0"
    )
    assert (made.public, made.signup_text, made.colour) == (False, "One\ntwo", "#ffaa00")
    assert await services.lists.get("garden") == made
    edited = await services.lists.edit("garden", public=True, welcome_text="Hello", colour="")
    assert await services.lists.get("garden") == edited
    assert (edited.public, edited.signup_text, edited.welcome_text, edited.colour) == (
        True,
        "One\ntwo",
        "Hello",
        "",
    )
    plain = await services.lists.get(await make_list(services))
    assert (plain.public, plain.signup_text, plain.colour, plain.logo) == (True, "", "", "")
    for field, call in {
        "signup_text": services.lists.edit("garden", signup_text="\0"),
        "welcome_text": services.lists.edit("garden", welcome_text="x" * 2001),
        "colour": services.lists.edit("garden", colour="red"),
    }.items():
        with pytest.raises(Invalid) as refused:
            await call
        assert refused.value.field == field


async def test_a_new_logo_takes_the_place_of_the_old_and_goes_with_its_list(
    services: Services, store: Store
) -> None:
    name, other = await make_list(services, "a"), await make_list(services, "a.")
    first = await services.logos.put(name, png())
    assert await services.logos.read(first) == png()
    second = await services.logos.put(name, jpeg(), first.etag)
    assert await pictures(store) == [second.logo]
    await services.logos.put(other, png())
    for call in (services.logos.put(name, b"<svg/>"), services.logos.put(name, png(), first.etag)):
        with pytest.raises((Invalid, Overtaken)):
            await call
    assert await services.logos.read(await services.lists.get(name)) == jpeg()
    assert len(await pictures(store)) == 2
    await services.lists.delete(name)
    assert [each.partition(",")[0] for each in await pictures(store)] == ["a."]
    removed = await services.logos.remove(other)
    assert await services.logos.read(removed) is None
    assert await pictures(store) == []
    with pytest.raises(NoSuch):
        await services.logos.put("nowhere", png())
