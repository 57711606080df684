"""The emails that a list sends automatically: edited, previewed, tested and reset."""

from html import unescape
from typing import Any

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.list_emails import ListEmailKind
from postroom.domain.audience.lists.lists import new_guid
from postroom.domain.errors import Invalid
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.mail.mail_reader import read_mail
from postroom.mail.mailing import Recipient
from postroom.sender.list_mailings import confirmation_mailing, welcome_mailing
from postroom.services.accounts.users import Role
from tests.web.site import Site, Visitor

PAGE = "/lists/garden/emails"
FRENCH = f"{PAGE}?kind=confirmation&language=fr"
TEXT = "# Bonjour\n\n{{ email }} <script>x</script>\n\n[Oui !]({{ confirm_url }})"
ANN = Recipient(Address("ann@example.org"), new_guid())


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("garden", "The <Garden>", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def test_a_text_is_edited_for_one_language_and_reset(site: Site, editor: Visitor) -> None:
    page = unescape((await editor.get(FRENCH)).text)
    assert "[Confirmer l’abonnement]({{ confirm_url }})" in page
    saved = await editor.post(FRENCH, {"subject": "Pour {{ list_description }}", "text": TEXT})
    assert await editor.said(saved) == "Saved."
    garden = await site.services.lists.get("garden")
    now = garden.created_at
    mail = read_mail(confirmation_mailing(garden, site.url, now, "fr-CA").mail(ANN))
    assert mail.subject == "Pour The <Garden>"
    link = f"{site.url}/confirm?id={ANN.guid}&listName=garden&lang=fr"
    assert f'href="{link.replace("&", "&amp;")}"' in (mail.html or "")
    assert "<script" not in (mail.html or "")
    assert link in (mail.text or "")
    assert "ann@example.org" in (mail.text or "")
    english = read_mail(confirmation_mailing(garden, site.url, now, "en").mail(ANN))
    assert english.subject == "Please confirm your subscription to The <Garden>"

    assert await editor.said(await editor.post(f"{PAGE}/reset?kind=confirmation&language=fr", {}))
    garden = await site.services.lists.get("garden")
    assert garden.own_emails(ListEmailKind.CONFIRMATION) == {}


@pytest.mark.parametrize(
    ("kind", "subject", "text", "problem"),
    [
        ("confirmation", "Hi", "Hello", "must contain the link that confirms"),
        ("confirmation", "Hi", "<!-- {{ confirm_url }} -->", "must contain the link that confirms"),
        ("confirmation", "Hi {{ email }}", TEXT, "there is no merge field {{ email }} here"),
        ("confirmation", "Hi", '{{ first_name | default: "" }}', "there is no merge field"),
        ("confirmation", "", TEXT, "must not be empty"),
        ("welcome", "Hi", "{{ first_name }}", "may be empty"),
        ("welcome", "Hi", '{% if language = "de" %}x{% end %}', "conditions cannot be used"),
        ("welcome", "Hi", "x" * 4001, "at most 4000 characters"),
    ],
)
async def test_a_text_that_cannot_be_sent_is_refused(
    site: Site, editor: Visitor, kind: str, subject: str, text: str, problem: str
) -> None:
    page = await editor.post(f"{PAGE}?kind={kind}&language=en", {"subject": subject, "text": text})
    assert page.status_code == 422
    assert problem in unescape(page.text)
    with pytest.raises(Invalid):
        await site.services.list_emails.save("garden", ListEmailKind(kind), "en", subject, text)


async def test_an_edit_conflict_shows_both_texts(editor: Visitor) -> None:
    stale = {"subject": "Mine", "text": TEXT, "etag": "1"}
    page = await editor.post(FRENCH, stale)
    assert page.status_code == 409
    assert "Someone else saved changes first" in page.text


async def test_the_preview_shows_what_is_typed_in_a_sandbox(site: Site, editor: Visitor) -> None:
    typed = {"subject": "Salut", "text": TEXT}
    sample = f"{PAGE}/sample?kind=confirmation&language=fr"
    shown = await editor.post(sample, typed)
    assert "Bonjour" in shown.text
    assert "sandbox" in shown.headers["content-security-policy"]
    assert "Bonjour" not in (await editor.get(sample)).text, "it is not saved"
    long = await editor.post(sample, {**typed, "text": TEXT + "\n\n" + "Привет. " * 450})
    assert long.text.count("Привет.") == 450, "no address could hold it"
    wrong = await editor.post(sample, {"subject": "x", "text": "x"})
    assert "must contain the link that confirms" in unescape(wrong.text)


async def test_those_who_confirm_are_welcomed_if_the_list_is_set_to(
    site: Site, editor: Visitor
) -> None:
    services = site.services

    async def confirm(address: str) -> list[Any]:
        await services.subscriptions.subscribe("garden", address)
        found = await services.subscriptions.get("garden", address)
        await services.store.queue(CONFIRM_QUEUE).purge()
        await site.visitor().post(f"/confirm?id={found.guid}&listName=garden&lang=de", {})
        items = await services.store.queue(CONFIRM_QUEUE).peek(10)
        return [(each.body, dict(each.properties)) for each in items]

    assert await confirm("ann@example.org") == []
    switched = await editor.post(f"{PAGE}/welcome?kind=welcome", {"welcome_email": "yes"})
    assert await editor.said(switched) == "Welcome email turned on."
    [(body, properties)] = await confirm("bob@example.org")
    bob = await services.subscriptions.get("garden", "bob@example.org")
    assert body == f"{bob.guid},garden"
    assert properties == {"language": "de", "welcome": "yes"}
    garden = await services.lists.get("garden")
    mailing, _ = welcome_mailing(garden, site.url, garden.created_at, "de")
    raw = mailing.mail(Recipient(bob.address, bob.guid))
    mail = read_mail(raw)
    assert mail.subject == "Willkommen!"
    assert b"List-Unsubscribe-Post: List-Unsubscribe=One-Click" in raw
    assert f"/unsubscribe?id={bob.guid}" in (mail.text or "")
    assert (mail.html or "").count("/unsubscribe?id=") == 1


async def test_a_test_email_goes_to_the_outbox(site: Site, editor: Visitor) -> None:
    sent = await editor.post(
        f"{PAGE}/test?kind=welcome&language=en",
        {"subject": "Hi", "text": "Hello {{ email }}", "test_to": "zoe@example.org"},
    )
    assert "Test sent to zoe@example.org." in sent.text
    newest = (await site.services.audit.newest()).entries[0]
    assert (newest.what, newest.on) == (
        "sent test of welcome email of garden to",
        "zoe@example.org",
    )
    wrong = {"subject": "x", "text": "x", "test_to": "zoe@example.org"}
    refused = await editor.post(f"{PAGE}/test?kind=confirmation", wrong)
    assert "must contain the link that confirms" in unescape(refused.text)


async def test_footers_are_in_the_language_of_the_list(site: Site, editor: Visitor) -> None:
    garden = await site.services.lists.edit(
        "garden", footer_text="Everyone", footer_text_fr="À tous"
    )
    shown = (await site.visitor().get("/subscribe?list=garden&lang=fr")).text
    assert "À tous" in shown
    assert "Everyone" in (await site.visitor().get("/subscribe?list=garden&lang=de")).text
    mail = read_mail(confirmation_mailing(garden, site.url, garden.created_at, "fr").mail(ANN))
    assert "À tous" in (mail.html or "")
    assert "À tous" in (mail.text or "")
    page = (await editor.get("/lists/garden/brand")).text
    assert "Footer text in French" in page
