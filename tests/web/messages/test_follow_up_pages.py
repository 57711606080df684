"""Send to new subscribers: asked with a subject, on the page and in the API."""

from postroom.domain.messages.emails import EmailOutcome
from postroom.scheduler.completion import Completion
from postroom.services.accounts.users import Role
from tests.integration.usecases.making import fill, make_list, schedule
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.web.site import Site


async def test_a_sent_message_offers_new_subscribers_and_the_subject_is_asked_for(
    site: Site,
) -> None:
    services = site.services
    name = await make_list(services)
    await fill(site.services.store, name, 2)
    editor = await site.user(Role.EDITOR)
    message = await schedule(services, name)
    place = f"/messages/{message.ref}"
    assert "/follow-up" not in (await editor.get(place)).text
    assert (await editor.get(f"{place}/follow-up?to=new")).status_code == 409
    message = await fan_out_whole(services.store, message.ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 2)
    assert await Completion(services).check(message)

    page = (await editor.get(place)).text
    assert f'href="{place}/follow-up?to=new"' in page
    assert "to=unclicked" not in page, "nobody knows who clicked"
    question = await editor.get(f"{place}/follow-up?to=new")
    assert f'value="{message.subject}"' in question.text
    wrong = await editor.post(f"{place}/follow-up", {"to": "new", "subject": " "})
    assert wrong.status_code == 422
    assert (await editor.post(f"{place}/follow-up", {"to": "unclicked"})).status_code == 409
    made = await editor.post(f"{place}/follow-up", {"to": "new", "subject": "In case"})
    draft = await services.messages.get(made.headers["location"].split("/")[2])
    assert (draft.subject, draft.exclude_segments) == ("In case", (f"received-{message.ref}",))

    key = (await services.keys.create("of the test")).secret
    headers = {"Authorization": f"Bearer {key}"}
    address = f"/api/v1/messages/{message.ref}/follow-up"
    http = site.visitor().http
    by_api = await http.post(address, headers=headers, json={"subject": "Again"})
    assert by_api.status_code == 201, by_api.text
    shown = by_api.json()
    assert (shown["status"], shown["subject"], shown["exclude_segments"]) == (
        "Draft", "Again", [f"received-{message.ref}"],
    )  # fmt: skip
    for body, status in (({}, 422), ({"subject": "Again", "to": "unclicked"}, 409)):
        assert (await http.post(address, headers=headers, json=body)).status_code == status
