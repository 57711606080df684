"""One form for a choice of lists, each with its own fields, consent and proof of work."""

import base64
import html
import json
import re

import altcha

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.form_properties import consent_version
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.services.accounts.users import Role
from tests.web.forms import forms_in
from tests.web.public.test_embedding import policy
from tests.web.site import Site, Visitor

ANN, FROM = "ann@example.com", "news@contoso.example"
SHOP, OTHER = "https://shop.example", "https://other.example"
CHOICE = "/subscribe?list=garden&list=club&list=plain&lang=en"
SHARED, CLUB = "I agree to news.", "I agree to the rules of the club."


async def three_lists(site: Site) -> None:
    """Make lists that agree on a field, disagree on another, and ask for different things."""
    lists, fields = site.services.lists, site.services.fields
    await lists.create("garden", "Garden", FROM, consent_text=SHARED, ask_name=True,
                       allowed_origins=f"{SHOP}\n{OTHER}", privacy_url="https://garden.example/p",
                       thank_you_url=f"{SHOP}/thanks")  # fmt: skip
    await lists.create("club", "Club", FROM, consent_text=CLUB, ask_tracking=True,
                       proof_of_work=True, allowed_origins=SHOP)  # fmt: skip
    await lists.create("plain", "Plain", FROM, consent_text=SHARED, allowed_origins=SHOP)
    city = Field("city", public=True)
    await fields.declare("garden", [city, Field("size", FieldType.INTEGER, public=True)])
    sizes = Field("size", FieldType.CHOICE, public=True, required=True, choices=("S", "M"))
    required_city = Field("city", label="Town", public=True, required=True)
    await fields.declare("club", [required_city, sizes, Field("score", FieldType.INTEGER)])


async def solution(visitor: Visitor, page: str) -> str:
    """Solve the task that a page has, as its widget does."""
    [url] = re.findall(r'challenge="([^"]+)"', page)
    task = (await visitor.get(html.unescape(url))).json()
    solved = altcha.solve_challenge(altcha.Challenge.from_dict(task))
    assert solved is not None
    payload = {"challenge": task, "solution": solved.to_dict()}
    return base64.b64encode(json.dumps(payload).encode()).decode()


async def test_each_chosen_list_gets_its_fields_consent_and_proof(site: Site) -> None:
    await three_lists(site)
    visitor, services = site.visitor(), site.services
    page = await visitor.get(CHOICE)
    assert re.findall(r'name="(attributes[^"]+)"', page.text) == [
        "attributes.first_name", "attributes.last_name", "attributes.size@garden",
        "attributes.size@club", "attributes.city",
    ]  # fmt: skip
    ids = re.findall(r' id="([^"]+)"', page.text)
    assert len(ids) == len({*ids})
    assert all(re.fullmatch(r"[A-Za-z][\w-]*", each) for each in ids), ids
    required = re.findall(r'<(?:input|select)[^>]*name="([^"]+)"[^>]* required', page.text)
    assert required == ["email"], "a browser would insist on what is hidden"
    assert page.text.count(SHARED) == page.text.count(CLUB) == 1, "the same text is asked once"
    assert page.text.count("https://garden.example/p") == 1
    [form] = [each for each in forms_in(page.text, CHOICE) if each.method == "post"]
    assert policy(page)["frame-ancestors"] == f"'self' {SHOP}", "sites that all lists allow"

    # What a list asks for counts only if it is chosen.
    given = {**dict(form.fields), "email": ANN, "list": ["garden", "club"]}
    wrong = await visitor.http.post(CHOICE, data=given)
    assert wrong.status_code == 422
    assert wrong.text.count("Please tick this box.") == 2
    assert wrong.text.count("Please fill this in.") == 2
    plain = {**given, "list": "plain", "email": "p@example.com"}
    assert (await visitor.http.post(CHOICE, data=plain)).status_code == 422
    plain["consent"] = consent_version(SHARED)
    assert (await visitor.http.post(CHOICE, data=plain)).status_code == 200

    given |= {
        "consent": [consent_version(SHARED), consent_version(CLUB)],
        "attributes.first_name": "Ann", "attributes.city": "Bern",
        "attributes.size@garden": "40", "attributes.size@club": "m", "tracking": "yes",
    }  # fmt: skip
    unproved = await visitor.http.post(CHOICE, data=given)
    assert "Please confirm that you are not a robot." in unproved.text
    assert 'value="Bern"' in unproved.text
    given["altcha"] = await solution(visitor, unproved.text)
    foreign = await visitor.http.post(CHOICE, data=given, headers={"Origin": OTHER})
    assert foreign.status_code == 403, "the club does not allow this site"
    done = await visitor.http.post(CHOICE, data=given, headers={"Origin": SHOP})
    assert (done.status_code, "Check your email" in done.text) == (200, True)
    again = await visitor.http.post(CHOICE, data={**given, "email": "b@example.com"})
    assert again.status_code == 422, "a solution counts once"

    found = {n: await services.subscriptions.get(n, ANN) for n in ("garden", "club")}
    assert found["garden"].attributes == {
        "first_name": "Ann", "city": "Bern", "size": 40
    }  # fmt: skip
    assert found["club"].attributes == {
        "first_name": "Ann", "city": "Bern", "size": "M"
    }  # fmt: skip
    assert (found["garden"].tracking, found["club"].tracking) == (False, True)
    for name, text in (("garden", SHARED), ("club", CLUB)):
        assert found[name].consent.endswith(f": {text}")
        history = await services.ledger.of_subscriber(found[name])
        assert history is not None
        [entry] = history.entries
        assert text in entry.details
        assert SHOP in entry.details
    queued = [each.body.split(",")[1] for each in await services.store.queue(CONFIRM_QUEUE).peek(9)]
    assert queued == ["plain", "garden", "club"]


async def test_the_form_to_copy_for_several_lists_works_without_scripts(site: Site) -> None:
    await three_lists(site)
    editor = await site.user(Role.EDITOR)
    page = await editor.get("/embed?list=garden&also=club&also=plain&also=nowhere")
    code = {
        name: html.unescape(page.text.partition(f'<code id="{name}">')[2].partition("</code>")[0])
        for name in ("script", "frame", "form")
    }
    assert 'data-list="garden,club,plain"' in code["script"]
    assert "/subscribe?list=garden&amp;list=club&amp;list=plain&amp;embed=1" in code["frame"]
    [form] = forms_in(code["form"], "/")
    given = {
        **dict(form.fields), "email": ANN, "list": ["garden", "plain"],
        "consent": consent_version(SHARED), "attributes.city": "Bern",
        "attributes.size@garden": "4",
    }  # fmt: skip
    assert set(given) <= {*form.names}
    visitor = site.visitor()
    path = form.action[form.action.index("/subscribe") :]
    sent = await visitor.http.post(path, data=given, headers={"Origin": SHOP})
    assert sent.status_code == 200
    known = await site.services.subscriptions.get("garden", ANN)
    assert known.attributes == {"city": "Bern", "size": 4}
    assert (await site.services.subscriptions.get("plain", ANN)).attributes == {}
    with_proof = {**given, "list": "club", "attributes.size@club": "S", "email": "c@example.com",
                  "consent": consent_version(CLUB)}  # fmt: skip
    asks = await visitor.http.post(path, data=with_proof, headers={"Origin": SHOP})
    assert asks.status_code == 422
    assert "altcha-widget" in asks.text, "our own page asks for the proof of work"


async def test_no_more_lists_at_once_than_a_mailbox_gets_emails(site: Site) -> None:
    names = [f"list{number:02}" for number in range(11)]
    for name in names:
        await site.services.lists.create(name, name, FROM)
    sent = await site.visitor().http.post(
        "/subscribe?lang=en", data={"choice": "yes", "email": ANN, "list": names}
    )
    assert sent.status_code == 422
    assert "Choose at most 10." in sent.text
    assert not await site.services.store.queue(CONFIRM_QUEUE).peek(1)
