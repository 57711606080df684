"""The sign-up form on other sites: who may show it, where it leads, and what it asks for."""

import base64
import html
import json
import re
from typing import Any

import altcha
import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.form_properties import consent_version
from postroom.domain.errors import Invalid
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.services.accounts.users import Role
from tests.web.forms import forms_in
from tests.web.site import Site, Visitor

ANN, FROM = "ann@example.com", "news@contoso.example"
SHOP, STRANGER = "https://shop.example", "https://stranger.example"
THANKS, WELCOME = "https://shop.example/thanks?a=1", "https://www.example.org/welcome"
FORM = {"list": "contoso1", "email": ANN}


async def make_list(site: Site, **properties: object) -> None:
    await site.services.lists.create("contoso1", "Contoso", FROM, **properties)


async def asked(site: Site) -> int:
    return len(await site.services.store.queue(CONFIRM_QUEUE).peek(32))


def policy(response: Any) -> dict[str, str]:
    directives = response.headers["content-security-policy"].split(";")
    return {name: rest for name, _, rest in (each.strip().partition(" ") for each in directives)}


async def test_only_allowed_sites_may_frame_the_form_or_send_it(site: Site) -> None:
    await make_list(site, allowed_origins=SHOP)
    await site.services.lists.create("open", "Open", FROM)
    visitor = site.visitor()
    page = await visitor.get("/subscribe?list=contoso1&embed=1")
    assert policy(page)["frame-ancestors"] == f"'self' {SHOP}"
    assert "x-frame-options" not in page.headers, "it would forbid what the policy allows"
    assert policy(await visitor.get("/subscribe?list=open"))["frame-ancestors"] == "'self'"
    assert policy(await visitor.get("/confirm?list=contoso1"))["frame-ancestors"] == "'none'"

    for origin in (STRANGER, "null"):
        refused = await visitor.http.post("/subscribe", data=FORM, headers={"Origin": origin})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers
    assert await asked(site) == 0
    sent = await visitor.http.post("/subscribe", data=FORM, headers={"Origin": SHOP})
    assert sent.status_code == 200
    assert sent.headers["access-control-allow-origin"] == SHOP
    assert "Origin" in sent.headers["vary"]
    own = {**FORM, "email": "bob@example.com"}
    assert (
        await visitor.http.post("/subscribe", data=own, headers={"Origin": site.url})
    ).status_code == 200
    anywhere = {"list": "open", "email": ANN}
    sent = await visitor.http.post("/subscribe", data=anywhere, headers={"Origin": STRANGER})
    assert sent.status_code == 200, "a list that names no sites accepts forms as before"
    assert await asked(site) == 3


async def test_visitors_end_on_pages_of_the_site(site: Site) -> None:
    await make_list(site, thank_you_url=THANKS, confirmed_url=WELCOME)
    visitor = site.visitor()
    page = await visitor.get("/subscribe?list=contoso1")
    assert policy(page)["form-action"] == "'self' https:"  # a site may redirect to another name
    assert 'target="_top"' not in page.text
    assert 'target="_top"' in (await visitor.get("/subscribe?list=contoso1&embed=1")).text
    sent = await visitor.http.post("/subscribe", data=FORM)
    assert (sent.status_code, sent.headers["location"]) == (303, THANKS)
    known = await site.services.subscriptions.get("contoso1", ANN)
    link = f"/confirm?id={known.guid}&listName=contoso1"
    assert policy(await visitor.get(link))["form-action"] == "'self' https:"
    done = await visitor.http.post(link)
    assert (done.status_code, done.headers["location"]) == (303, WELCOME)
    assert (await visitor.get(link)).status_code == 200


async def test_consent_is_required_and_to_the_current_text(site: Site) -> None:
    text = "I agree to <everything>."
    await make_list(site, consent_text=text, privacy_url="https://www.example.org/privacy")
    visitor = site.visitor()
    page = await visitor.get("/subscribe?list=contoso1")
    assert "I agree to &lt;everything&gt;." in page.text
    assert 'href="https://www.example.org/privacy"' in page.text
    for given in ("", "yes", consent_version("I agree.")):
        refused = await visitor.http.post("/subscribe", data={**FORM, "consent": given})
        assert refused.status_code == 422
        assert "Please tick this box." in refused.text
    assert await asked(site) == 0
    agreed = {**FORM, "consent": consent_version(text)}
    assert (await visitor.http.post("/subscribe", data=agreed)).status_code == 200
    assert await asked(site) == 1
    known = await site.services.subscriptions.get("contoso1", ANN)
    version = consent_version(text)
    assert re.fullmatch(rf"Agreed \S+ \S+ UTC to version {version}: {text}", known.consent)

    # Another sign-up, on another site and to another text, replaces it until they confirm.
    await site.services.lists.edit("contoso1", consent_text="I agree.")
    later = {**FORM, "consent": consent_version("I agree.")}
    await visitor.http.post("/subscribe", data=later, headers={"Origin": SHOP})
    again = await site.services.subscriptions.get("contoso1", ANN)
    assert f" on {SHOP} to version " in again.consent
    assert again.consent.endswith(": I agree.")
    await site.services.subscriptions.confirm("contoso1", again.guid)
    await visitor.http.post("/subscribe", data=later)
    file = await visitor.http.post(
        f"/preferences?id={again.guid}&listName=contoso1", data={"action": "download"}
    )
    assert file.json()["subscription"]["consent"] == again.consent
    page = await (await site.user(Role.VIEWER)).get(f"/lists/contoso1/subscribers/{ANN}")
    assert f"on {SHOP} to version" in page.text


async def solution(visitor: Visitor, name: str = "contoso1") -> str:
    """Solve a task as the widget does, in less time."""
    task = (await visitor.get(f"/subscribe/challenge?list={name}")).json()
    solved = altcha.solve_challenge(altcha.Challenge.from_dict(task))
    assert solved is not None
    payload = {"challenge": task, "solution": solved.to_dict()}
    return base64.b64encode(json.dumps(payload).encode()).decode()


async def test_each_proof_of_work_counts_once_and_for_one_list(site: Site) -> None:
    await make_list(site, proof_of_work=True)
    await site.services.lists.create("other", "Other", FROM, proof_of_work=True)
    await site.services.lists.create("open", "Open", FROM)
    visitor = site.visitor()
    assert (await visitor.get("/subscribe/challenge?list=open")).status_code == 404
    first, foreign = await solution(visitor), await solution(visitor, "other")
    easier = json.loads(base64.b64decode(first))
    easier["challenge"]["parameters"]["keyPrefix"] = ""
    forged = base64.b64encode(json.dumps(easier).encode()).decode()
    for wrong in ("", "x", "e30=", foreign, forged, base64.b64encode(b"[" * 2000).decode()):
        refused = await visitor.http.post("/subscribe", data={**FORM, "altcha": wrong})
        assert refused.status_code == 422
        assert "Please confirm that you are not a robot." in refused.text
    assert await asked(site) == 0
    # A mistake elsewhere in the form does not use it up.
    mistaken = {**FORM, "email": "x", "altcha": first}
    assert (await visitor.http.post("/subscribe", data=mistaken)).status_code == 422
    right = {**FORM, "altcha": first}
    assert (await visitor.http.post("/subscribe", data=right)).status_code == 200
    again = {**FORM, "email": "bob@example.com", "altcha": first}
    assert (await visitor.http.post("/subscribe", data=again)).status_code == 422
    assert await asked(site) == 1


async def test_the_html_form_to_copy_signs_up_with_all_fields(site: Site) -> None:
    await make_list(site, ask_name=True, consent_text="Yes & no")
    fields = [
        Field(kind, kind, public=True, choices=("A & B", "C") if "choice" in kind else ())
        for kind in FieldType
    ]
    await site.services.fields.declare("contoso1", fields)
    page = await (await site.user(Role.EDITOR)).get("/lists/contoso1/signup-page")
    code = page.text.partition('<code id="form">')[2].partition("</code>")[0]
    [form] = forms_in(html.unescape(code), "/")
    assert form.action.endswith("/subscribe")
    given = {
        **dict(form.fields), "email": ANN, "consent": consent_version("Yes & no"),
        "attributes.first_name": "Ann", "attributes.integer": "3", "attributes.date": "2000-01-02",
        "attributes.choice": "A & B", "attributes.choices": ["C"], "attributes.boolean": "yes",
    }  # fmt: skip
    assert set(given) <= {*form.names}
    assert (await site.visitor().http.post("/subscribe", data=given)).status_code == 200
    known = await site.services.subscriptions.get("contoso1", ANN)
    assert known.attributes == {
        "first_name": "Ann", "integer": 3, "date": "2000-01-02", "choice": "A & B",
        "choices": ["C"], "boolean": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("thank_you_url", "http://shop.example/thanks"),
        ("thank_you_url", "javascript:alert(1)"),
        ("thank_you_url", "https://shop.example/a b"),
        ("confirmed_url", "//shop.example"),
        ("privacy_url", "https://user:secret@shop.example"),
        ("allowed_origins", "https://shop.example/path"),
        ("allowed_origins", "*"),
        ("allowed_origins", "https://shop.example; script-src *"),
        ("allowed_origins", "\n".join(f"https://{n}.example" for n in range(21))),
    ],
)
async def test_an_address_that_is_not_safe_is_refused(site: Site, name: str, wrong: str) -> None:
    await make_list(site)
    with pytest.raises(Invalid) as refused:
        await site.services.lists.edit("contoso1", **{name: wrong})
    assert refused.value.field == name
