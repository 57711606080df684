"""Pictures on each engine: stored once, never half there, and not deleted while they are used."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from postroom import clock
from postroom.domain.audience.lists.list_emails import ListEmailKind
from postroom.domain.errors import NoSuch, NotNow, Overtaken
from postroom.domain.messages.pictures import Picture
from postroom.services import entities
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.drafts.message_versions import version_name
from postroom.services.messages.drafts.templates import TemplateContent
from postroom.services.messages.media.pictures import PictureService
from postroom.services.messages.message_contents import NewBodies
from postroom.storage import KeyRange, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import days, make_list
from tests.services.pictures import Colour, picture

ANN = "ann@example.com"


@pytest.fixture(params=["sqlite", "postgres", "azure"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class MovedClock:
    """The system's clock, ahead by `ahead`."""

    ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def since_boot(self) -> float:
        return self.monotonic()


@pytest.fixture
def moved() -> Iterator[MovedClock]:
    found = MovedClock()
    with clock.replaced_by(found):
        yield found


@pytest.fixture
def pictures(services: Services) -> PictureService:
    return services.pictures


async def add(pictures: PictureService, name: str = "a cat.png", red: int = 200) -> Picture:
    colour: Colour = (red, 30, 30)
    added, _ = await pictures.upload(picture(colour=colour), name, by=ANN)
    return added


async def names(pictures: PictureService, search: str = "") -> list[str]:
    return [each.name for each in (await pictures.slice(search=search)).pictures]


async def left(store: Store) -> tuple[int, int]:
    """How many blobs and rows there are, apart from uses."""
    rows = [each async for each in store.table(entities.MEDIA).scan(KeyRange.only("picture"))]
    return len((await store.container(entities.MEDIA).list()).blobs), len(rows)


async def test_a_picture_is_stored_found_described_and_deleted(
    store: Store, pictures: PictureService
) -> None:
    stored, is_new = await pictures.upload(picture(), "cats/a cat.png", "A cat", by=ANN)
    assert is_new
    assert (stored.name, stored.alt, stored.uploaded_by) == ("a cat.png", "A cat", ANN)
    assert (stored.width, stored.height, stored.is_animated) == (40, 30, False)
    data = b"".join([piece async for piece in pictures.stream(stored.file_name)])
    assert len(data) == stored.size
    assert await pictures.get(stored.hash) == stored

    again, is_new = await pictures.upload(picture(), "another name.png", by="bob@example.com")
    assert (again, is_new) == (stored, False)

    described = await pictures.describe(stored.hash, "A red cat", stored.etag)
    assert await pictures.get(stored.hash) == described
    with pytest.raises(Overtaken):
        await pictures.describe(stored.hash, "A dog", stored.etag)

    assert await pictures.delete(stored.hash) == described
    with pytest.raises(NoSuch):
        await pictures.get(stored.hash)
    assert await pictures.blob(stored.file_name) is None
    assert await left(store) == (0, 0)


async def test_pictures_are_listed_newest_first_and_found_by_any_part_of_their_name(
    pictures: PictureService,
) -> None:
    for number, name in enumerate(["Cat.png", "dog.png", "CATS.png", "x.png"]):
        await add(pictures, name, number)
    assert await names(pictures) == ["x.png", "CATS.png", "dog.png", "Cat.png"]
    assert await names(pictures, "cat") == ["CATS.png", "Cat.png"]
    assert await names(pictures, "nothing") == []
    first = await pictures.slice(limit=3)
    second = await pictures.slice(limit=3, after=first.next)
    assert [each.name for each in second.pictures] == ["Cat.png"]
    assert second.next is None
    found = await pictures.slice(search="cat", limit=1)
    following = await pictures.slice(search="cat", limit=1, after=found.next)
    assert [each.name for each in following.pictures] == ["Cat.png"]
    assert following.next is None


async def test_an_upload_that_is_killed_leaves_no_picture_without_its_bytes(
    store: Store, services: Services, moved: MovedClock
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        moved.ahead = timedelta()
        dead = await dies(add(Services(Fated(store, fate)).pictures))
        listed = (await services.pictures.slice()).pictures
        assert bool(listed) is not dead
        for each in listed:
            assert await services.pictures.blob(each.file_name) is not None
        moved.ahead = timedelta(hours=2)
        await services.pictures.clean_up()
        assert await left(store) == ((0, 0) if dead else (1, 2))

    assert await cut_after_each_write(attempt) == 2


async def test_a_deletion_that_is_killed_leaves_no_picture_without_its_bytes(
    store: Store, services: Services
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        added = await add(services.pictures)
        dead = await dies(Services(Fated(store, fate)).pictures.delete(added.hash))
        for each in (await services.pictures.slice()).pictures:
            assert await services.pictures.blob(each.file_name) is not None
        assert (await names(services.pictures) == []) is (not dead or writes > 0)
        # Uploading it again works, whatever was left.
        await add(services.pictures)
        assert await left(store) == (1, 2)

    assert await cut_after_each_write(attempt) == 3


async def test_a_killed_deletion_is_finished_later(store: Store, services: Services) -> None:
    added = await add(services.pictures)
    assert await dies(Services(Fated(store, Fate(1))).pictures.delete(added.hash))
    assert await services.pictures.clean_up() == 1
    assert await left(store) == (0, 0)


async def test_a_picture_in_use_is_not_deleted_until_the_message_is_without_it(
    services: Services, moved: MovedClock
) -> None:
    used, unused = await add(services.pictures), await add(services.pictures, "other.png", 10)
    await make_list(services)
    html = f'<p>Hello <img src="https://contoso.com{used.path}" alt=""></p>'
    message = await services.messages.create("contoso1", "Cats", NewBodies(html), days(1))
    moved.ahead = timedelta(minutes=1)

    with pytest.raises(NotNow, match=rf"used in the message 'Cats' \({message.ref}\)"):
        await services.pictures.delete(used.hash)
    assert [each.name for each in await services.pictures.uses(used)] == [message.ref]
    assert await services.pictures.uses(unused) == []
    await services.pictures.delete(unused.hash)
    assert await names(services.pictures) == ["a cat.png"]

    await services.messages.edit(message.ref, bodies=NewBodies("<p>No cats</p>"))
    moved.ahead = timedelta(minutes=2)
    assert await services.pictures.uses(used) == []
    await services.pictures.delete(used.hash)


async def test_a_picture_of_a_deleted_message_can_be_deleted(
    services: Services, moved: MovedClock
) -> None:
    used = await add(services.pictures)
    await make_list(services)
    message = await services.messages.create(
        "contoso1", "Cats", NewBodies(None, f"https://contoso.com{used.path}"), days(1)
    )
    await services.messages.delete(message.ref)
    with pytest.raises(NotNow):  # for some seconds nobody knows whether it is being saved
        await services.pictures.delete(used.hash)
    moved.ahead = timedelta(minutes=1)
    await services.pictures.delete(used.hash)


async def test_a_message_saved_during_the_deletion_keeps_its_picture(
    store: Store, services: Services
) -> None:
    used = await add(services.pictures)
    await make_list(services)

    async def save() -> None:
        html = NewBodies(f'<img src="{used.path}" alt="A cat">')
        await services.messages.create("contoso1", "Cats", html, days(1))

    deleting = Services(Fated(store, Fate(before={1: save}))).pictures
    with pytest.raises(NotNow, match="Cats"):
        await deleting.delete(used.hash)
    assert (await services.pictures.get(used.hash)).name == used.name
    assert await services.pictures.blob(used.file_name) is not None


async def test_the_same_picture_uploaded_by_many_at_once_is_one(
    store: Store, services: Services
) -> None:
    added = await asyncio.gather(*(add(services.pictures) for _ in range(5)))
    assert len({each.etag for each in added}) == 1
    assert await left(store) == (1, 2)


async def test_a_picture_of_a_template_is_not_deleted(
    services: Services, moved: MovedClock
) -> None:
    used = await add(services.pictures)
    source = (await services.templates.get("letter")).layout.source
    assert "</mj-body>" in source
    logo = f'<mj-section><mj-column><mj-image src="https://contoso.com{used.path}" alt="" />'
    logo += "</mj-column></mj-section></mj-body>"
    content = TemplateContent("Our letter", source.replace("</mj-body>", logo))
    await services.templates.create("ours", content, ANN)
    moved.ahead = timedelta(minutes=1)
    with pytest.raises(NotNow, match=r"the template 'Our letter' \(ours\)"):
        await services.pictures.delete(used.hash)
    await services.templates.replace("ours", TemplateContent("Our letter", source), ANN)
    await services.pictures.delete(used.hash)


async def test_a_picture_of_a_version_that_can_be_restored_is_used(
    services: Services, pictures: PictureService
) -> None:
    stored = await add(pictures, "early.png", 0)
    shown = f'<p>x</p><img src="{stored.path}">'
    composing = services.composing
    draft = await composing.create(ContentChange(subject="Winter", body=shown, text=""), ANN)
    await composing.save(draft.ref, ContentChange(body="<p>x</p>"), "bob@example.com")
    assert [each.name for each in await pictures.uses(stored)] == [draft.ref]
    with pytest.raises(NotNow, match="the message 'Winter'"):
        await pictures.delete(stored.hash)
    [version] = await composing.versions.all(draft.ref)
    await composing.restore(draft.ref, version_name(version), ANN)
    assert await pictures.blob(stored.file_name)


async def test_pictures_of_confirmation_and_welcome_emails_are_used(
    services: Services, pictures: PictureService, moved: MovedClock
) -> None:
    await make_list(services, "news")
    for kind in ListEmailKind:
        stored = await add(pictures, f"{kind}.png", len(kind))
        text = f"![Hi]({stored.path})\n\n{{{{ confirm_url }}}}"
        text = text if kind is ListEmailKind.CONFIRMATION else f"![Hi]({stored.path})"
        await services.list_emails.save("news", kind, "en", "Hello", text)
        [use] = await pictures.uses(stored)
        assert (use.kind, use.name) == ("list", "news")
        assert await pictures.uses(stored, sees=lambda names: "news" not in names) == []
        with pytest.raises(NotNow, match="Emails of news"):
            await pictures.delete(stored.hash)
        await services.list_emails.reset("news", kind, "en")
        moved.ahead += timedelta(minutes=1)
        await pictures.delete(stored.hash)
