"""The preferences page: looking changes nothing, and the link shows only its own subscription."""

import re

import msgspec
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName, Subscriber, new_guid
from postroom.domain.messages.pages import CONFIRM_QUEUE
from tests.integration.usecases.making import schedule
from tests.integration.usecases.pages import check_pages, fan_out_whole
from tests.web.public.test_languages import confirmation_sent, emails_sent
from tests.web.site import Site

ANN, MASKED = "annabel@example.com", "an*****@example.com"
NEW = "bella@example.org"
FROM = "news@contoso.example"
FIELDS = (
    Field("city", label="Your town", public=True, required=True),
    Field("plan", FieldType.CHOICE, choices=("Free", "Pro"), public=True),
    Field("topics", FieldType.CHOICES, choices=("Art, old", "Music"), public=True),
    Field("vip", FieldType.BOOLEAN, public=True),
    Field("score", FieldType.INTEGER),
)


@pytest.fixture
async def ann(site: Site) -> Subscriber:
    services = site.services
    await services.lists.create("contoso1", "Contoso News", FROM)
    await services.lists.create("garden", "Garden", FROM)
    await services.lists.create("staff", "Staff only", FROM, public=False)
    await services.fields.declare("contoso1", FIELDS)
    known = {"city": "Bern", "score": 7, "first_name": "Ann"}
    return await services.subscriptions.add("contoso1", ANN, verified=True, attributes=known)


def link(subscriber: Subscriber) -> str:
    return f"/preferences?id={subscriber.guid}&listName={subscriber.list_name}&lang=en"


async def current(site: Site, email: str = ANN) -> Subscriber:
    return await site.services.subscriptions.get("contoso1", email)


async def test_the_page_shows_public_fields_and_lists_and_looking_changes_nothing(
    site: Site, ann: Subscriber
) -> None:
    visitor = site.visitor()
    page = await visitor.get(f"{link(ann)}&action=pause&attributes.city=Rome")
    assert page.status_code == 200
    assert MASKED in page.text
    assert ANN not in page.text
    assert "Your town" in page.text
    assert 'value="Bern"' in page.text
    assert "Garden" in page.text
    for hidden in ("Staff only", "score", "Last name"):
        assert hidden not in page.text
    await visitor.http.head(link(ann))
    assert await current(site) == ann


async def test_fields_and_language_are_saved_and_others_stay(site: Site, ann: Subscriber) -> None:
    form = {
        "action": "save", "attributes.city": "Rome", "attributes.plan": "Pro",
        "attributes.topics": ["Art, old", "Music"], "attributes.vip": "yes",
        "attributes.first_name": "", "attributes.score": "9", "language": "fr",
    }  # fmt: skip
    page = await site.visitor().http.post(link(ann), data=form)
    assert page.status_code == 200
    assert "Saved." in page.text
    assert (await current(site)).attributes == {
        "city": "Rome", "plan": "Pro", "topics": ["Art, old", "Music"], "vip": True, "score": 7,
        "language": "fr",
    }  # fmt: skip
    off = {"action": "save", "attributes.city": "Rome"}
    await site.visitor().http.post(link(ann), data=off)
    assert (await current(site)).attributes == {"city": "Rome", "vip": False, "score": 7}


async def test_choices_that_are_no_longer_offered_stay_until_their_owner_changes_them(
    site: Site, ann: Subscriber
) -> None:
    form = {"action": "save", "attributes.city": "Bern", "attributes.topics": ["Art, old"]}
    chosen = {**form, "attributes.plan": "Pro"}
    await site.visitor().http.post(link(ann), data=chosen)
    fields = (await site.services.fields.get("contoso1")).fields
    others = {"plan": ("Free", "Team"), "topics": ("Sport",)}
    await site.services.fields.declare(
        "contoso1",
        [
            msgspec.structs.replace(each, choices=others.get(each.name, each.choices))
            for each in fields.own
        ],
    )
    page = (await site.visitor().get(link(ann))).text
    assert '<option value="Pro" selected>' in page
    assert 'value="Art, old" checked' in page
    saved = await site.visitor().http.post(link(ann), data={**chosen, "attributes.city": "Rome"})
    assert "Saved." in saved.text
    kept = (await current(site)).attributes
    assert (kept["city"], kept["plan"], kept["topics"]) == ("Rome", "Pro", ["Art, old"])
    await site.visitor().http.post(link(ann), data={**form, "attributes.plan": "Team"})
    assert (await current(site)).attributes["plan"] == "Team"
    again = await site.visitor().http.post(link(ann), data=chosen)
    assert "Please check this entry." in again.text
    assert "Pro</option>" not in again.text


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"attributes.city": " "}, "Please fill this in."),
        ({"attributes.city": "x" * 1001}, "Please check this entry."),
        ({"attributes.city": "Rome", "attributes.plan": "Other"}, "Please check this entry."),
        ({"attributes.city": "Rome", "attributes.topics": "Other"}, "Please check this entry."),
    ],
)
async def test_an_entry_that_does_not_fit_is_shown_again(
    site: Site, ann: Subscriber, form: dict[str, str], problem: str
) -> None:
    page = await site.visitor().http.post(link(ann), data={"action": "save", **form})
    assert page.status_code == 422
    assert problem in page.text
    assert await current(site) == ann


@pytest.mark.parametrize("private", [0, 10])
async def test_too_much_at_once_is_shown_again(site: Site, ann: Subscriber, private: int) -> None:
    """Whether it is too much alone, or beside fields that are not public."""
    fields = [Field(f"note{number}", public=number >= private) for number in range(20)]
    await site.services.fields.declare("contoso1", fields)
    values = {each.name: "x" * 900 for each in fields}
    known = {name: values[name] for name in list(values)[:private]}
    await site.services.subscriptions.edit("contoso1", ANN, attributes=known)
    before = await current(site)
    form = {f"attributes.{name}": values[name] for name in list(values)[private:]}
    page = await site.visitor().http.post(link(ann), data={"action": "save", **form})
    assert page.status_code == 422
    assert page.text.count("Please check this entry.") == 1
    assert await current(site) == before


async def test_signing_up_with_too_much_at_once_sends_nothing_and_says_so(
    site: Site, ann: Subscriber
) -> None:
    fields = [Field(f"note{number}", public=True) for number in range(20)]
    await site.services.fields.declare("contoso1", fields)
    form = {f"attributes.{each.name}": "x" * 900 for each in fields}
    page = await site.visitor().http.post(
        "/subscribe?list=contoso1&lang=en", data={"email": NEW, **form}
    )
    assert page.status_code == 422
    assert "Please check this entry." in page.text


async def test_another_list_is_confirmed_by_email_and_left_at_once(
    site: Site, ann: Subscriber
) -> None:
    form = {"action": "save", "attributes.city": "Bern", "list": ["garden", "staff"]}
    page = await site.visitor().http.post(link(ann), data=form)
    assert "To confirm the new list" in page.text
    [item] = await site.services.store.queue(CONFIRM_QUEUE).peek(32)
    guid, _, name = item.body.partition(",")
    assert name == "garden"
    await site.services.subscriptions.confirm("garden", guid)
    again = await site.visitor().get(link(ann))
    assert 'value="garden" checked' in again.text
    assert 'name="shown" value="garden"' in again.text
    # A list that became public after the page was shown is not left.
    await site.visitor().http.post(link(ann), data={**form, "list": []})
    assert await site.services.subscriber_rows.find(ListName("garden"), ann.address) is not None
    await site.visitor().http.post(link(ann), data={**form, "list": [], "shown": ["garden"]})
    assert await site.services.subscriber_rows.find(ListName("garden"), ann.address) is None


async def test_every_public_list_can_be_left_and_those_with_a_form_are_linked(
    site: Site, ann: Subscriber
) -> None:
    services = site.services
    await services.lists.create("legal", "Legal news", FROM, consent_text="I agree.")
    await services.lists.create("robots", "Robot news", FROM, proof_of_work=True)
    await services.lists.create("cities", "City news", FROM)
    await services.fields.declare("cities", [Field("town", public=True, required=True)])
    for name in ("legal", "robots", "staff"):
        await services.subscriptions.add(name, ANN, verified=True)
    page = (await site.visitor().get(link(ann))).text
    boxes = re.findall(r'name="list" value="(\w+)"( checked)?', page)
    assert boxes == [("garden", ""), ("legal", " checked"), ("robots", " checked")]
    assert re.findall(r'href="/subscribe\?list=(\w+)', page) == ["cities"]

    form = {"action": "save", "attributes.city": "Bern", "shown": ["legal", "robots", "garden"]}
    left = await site.visitor().http.post(link(ann), data={**form, "list": ["robots", "cities"]})
    assert await services.subscriber_rows.find(ListName("legal"), Address(ANN)) is None
    assert await services.subscriber_rows.find(ListName("robots"), Address(ANN)) is not None
    assert await services.subscriber_rows.find(ListName("cities"), Address(ANN)) is None
    assert re.findall(r'href="/subscribe\?list=(\w+)', left.text) == ["cities", "legal"]


async def test_nothing_is_planned_for_someone_who_takes_a_break(
    site: Site, ann: Subscriber
) -> None:
    services = site.services
    await services.subscriptions.add(
        "contoso1", "bob@example.com", verified=True, attributes={"city": "Rome"}
    )
    page = await site.visitor().http.post(link(ann), data={"action": "pause"})
    paused = await current(site)
    assert paused.paused_until is not None
    assert f"Paused until {paused.paused_until:%-d %B %Y}." in page.text
    message = await schedule(services, "contoso1")
    planned = await check_pages(services.store, await fan_out_whole(services.store, message.ref))
    assert planned == ["bob@example.com"]

    await site.visitor().http.post(link(ann), data={"action": "resume"})
    assert (await current(site)).paused_until is None
    message = await schedule(services, "contoso1")
    planned = await check_pages(services.store, await fan_out_whole(services.store, message.ref))
    assert planned == [ANN, "bob@example.com"]


async def test_a_new_address_is_confirmed_there_and_everything_else_stays(
    site: Site, ann: Subscriber
) -> None:
    visitor = site.visitor()
    page = await visitor.http.post(link(ann), data={"action": "address", "email": NEW})
    assert f"We’ve sent an email to {NEW}." in page.text
    assert await current(site) == ann
    both = await confirmation_sent(site)
    assert "from now on" in both["text/plain"]
    assert ann.guid not in both["text/plain"] + both["text/html"], "the address may be mistyped"
    [confirm] = re.findall(r"http://localhost:0(/preferences/address\S+)", both["text/plain"])
    for method in ("GET", "HEAD"):
        looked = await visitor.http.request(method, confirm)
        assert looked.status_code == 200
    assert await current(site) == ann
    for _ in range(2):  # repeating is harmless
        done = await visitor.http.post(confirm)
        assert "Address changed" in done.text
    moved = await current(site, NEW)
    assert (moved.guid, moved.attributes, moved.created_at, moved.verified_at) == (
        ann.guid, ann.attributes, ann.created_at, ann.verified_at
    )  # fmt: skip
    assert (await visitor.get(link(ann))).status_code == 200


async def test_an_address_that_is_already_subscribed_is_not_revealed_before_it_is_confirmed(
    site: Site, ann: Subscriber
) -> None:
    other = {"city": "Rome"}
    await site.services.subscriptions.add("contoso1", NEW, verified=True, attributes=other)
    visitor = site.visitor()
    page = await visitor.http.post(link(ann), data={"action": "address", "email": NEW})
    assert f"We’ve sent an email to {NEW}." in page.text
    both = await confirmation_sent(site)
    [confirm] = re.findall(r"http://localhost:0(/preferences/address\S+)", both["text/plain"])
    refused = await visitor.http.post(confirm)
    assert "This address is already subscribed" in refused.text
    assert await current(site) == ann


async def test_nothing_is_sent_to_a_new_address_that_is_blocked(
    site: Site, ann: Subscriber
) -> None:
    await site.services.subscriptions.add("contoso1", NEW, attributes={"city": "Rome"})
    await site.services.subscriptions.edit("contoso1", NEW, blocked="complained")
    page = await site.visitor().http.post(link(ann), data={"action": "address", "email": NEW})
    assert f"We’ve sent an email to {NEW}." in page.text
    assert await emails_sent(site) == []


async def test_a_token_for_one_list_opens_no_other_and_nobody_is_asked_too_often(
    site: Site, ann: Subscriber
) -> None:
    visitor = site.visitor()
    for _ in range(4):
        await visitor.http.post(link(ann), data={"action": "address", "email": NEW})
    items = await site.services.store.queue(CONFIRM_QUEUE).peek(32)
    assert len(items) == 2
    token = items[0].properties["address_change"]
    for wrong in (
        {"listName": "garden", "token": token},
        {"listName": "contoso1", "token": token[:-4] + "AAAA"},
        {"listName": "contoso1", "token": "x"},
        {"listName": "contoso1"},
    ):
        assert (await visitor.get("/preferences/address", params=wrong)).status_code == 404


async def test_the_download_has_this_subscription_and_no_secret(
    site: Site, ann: Subscriber
) -> None:
    await site.services.subscriptions.add("staff", ANN, verified=True)
    other = await site.services.subscriptions.get("staff", ANN)
    for subscriber, old_id in ((ann, "an-id-of-listmonk"), (other, "another-id-of-it")):
        await site.services.foreign_ids.note(subscriber.list_name, {old_id: subscriber.guid})
    file = await site.visitor().http.post(link(ann), data={"action": "download"})
    assert file.headers["content-disposition"] == 'attachment; filename="contoso1.json"'
    data = file.json()
    assert data["subscription"]["email"] == ANN
    assert data["subscription"]["attributes"] == ann.attributes
    assert (data["messages"], data["foreign_ids"]) == ([], ["an-id-of-listmonk"])
    assert ann.guid not in file.text
    assert "staff" not in file.text


async def test_the_download_has_nothing_that_the_team_keeps_to_itself(
    site: Site, ann: Subscriber
) -> None:
    services = site.services
    await services.subscriptions.edit("contoso1", ANN, note="pays late")
    message = await schedule(services, "contoso1")
    await fan_out_whole(services.store, message.ref)
    file = await site.visitor().http.post(link(ann), data={"action": "download"})
    data = file.json()
    assert "pays late" not in file.text
    assert set(data["subscription"]) == {
        "list", "email", "confirmed", "signed_up_at", "confirmed_at", "paused_until", "attributes",
        "consent", "tracking", "source", "former_addresses",
    }  # fmt: skip
    [email] = data["messages"]
    assert set(email) == {
        "ref", "email", "subject", "sent_at", "outcome", "reply",
        "opened_at", "clicked_at", "links",
    }  # fmt: skip
    assert (email["ref"], email["subject"], email["outcome"]) == (message.ref, "News", "pending")


async def test_a_wrong_link_says_nothing_and_an_unconfirmed_one_asks_to_confirm(
    site: Site, ann: Subscriber
) -> None:
    visitor = site.visitor()
    for path in (
        f"/preferences?id={new_guid()}&listName=contoso1",
        f"/preferences?id={ann.guid}&listName=garden",
        f"/preferences?id={ann.guid}&listName=nope",
        "/preferences",
    ):
        for page in (await visitor.get(path), await visitor.http.post(path)):
            assert page.status_code == 404
            assert "Contoso" not in page.text
    not_yet = await site.services.subscriptions.add("garden", "carol@example.com")
    sent_to = await visitor.get(link(not_yet))
    assert sent_to.headers["location"].startswith("/confirm?")
    assert "Confirm your subscription" in (await visitor.get(sent_to.headers["location"])).text
    await visitor.http.post(link(not_yet), data={"action": "pause"})
    assert await site.services.subscriptions.by_guid("garden", not_yet.guid) == not_yet
