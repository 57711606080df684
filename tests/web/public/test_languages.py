"""Every visitor is spoken to in their language, and no text is left behind."""

import asyncio
import gettext
import re
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.pofile import read_po

from postroom.domain.languages import LANGUAGES
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.translations import DOMAIN, LOCALES, Translator
from postroom.web.public.visitor import LANGUAGE_NAMES, preferred
from postroom.wiring import make_confirmations, opened_transport
from tests.unit.mail.strict import bodies, parse
from tests.web.site import Site

CATALOGUES = [LOCALES / each / "LC_MESSAGES" / f"{DOMAIN}.po" for each in LANGUAGES[1:]]
PLACEHOLDER = re.compile(r"%\(\w+\)s")


def catalogue(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file)


def ids(messages: Catalog) -> set[str]:
    return {str(each.id) for each in messages if each.id}


def in_code() -> set[str]:
    with (LOCALES / "babel.cfg").open() as file:
        methods, _ = parse_mapping_cfg(file)  # type: ignore[no-untyped-call]
    found = extract_from_dir(LOCALES.parent, method_map=methods)
    return {str(message) for _, _, message, _, _ in found}


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parts[-3])
def test_a_catalogue_has_every_text_and_is_compiled(path: Path) -> None:
    texts = catalogue(path)
    assert ids(texts) == in_code(), "run `make translations` and translate what is new"
    with path.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for each in texts:
        if not each.id:
            continue
        assert isinstance(each, Message)
        assert not each.fuzzy, each.id
        assert each.string, f"not translated: {each.id}"
        assert sorted(PLACEHOLDER.findall(str(each.string))) == sorted(
            PLACEHOLDER.findall(str(each.id))
        )
        assert compiled.gettext(str(each.id)) == each.string, "run `make translations`"
    assert not texts.obsolete


def test_every_language_has_a_name_and_a_catalogue() -> None:
    assert tuple(LANGUAGE_NAMES) == LANGUAGES
    assert {path.parts[-3] for path in LOCALES.glob("*/*/*.po")} == set(LANGUAGES) - {"en"}
    for each in LANGUAGES:
        assert Translator(each).language == each
        assert Translator(each)("Confirm")


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", ""),
        ("*", ""),
        ("de", "de"),
        ("fr-CA,fr;q=0.9,en;q=0.8", "fr"),
        ("es,pt;q=0.9,ru;q=0.2,en;q=0.1", "ru"),
        ("en;q=0.3, ko-KR;q=0.8 , *;q=0.1", "ko"),
        ("de;q=0, fr", "fr"),
        ("de;q=0", ""),
        ("de;q=nan,fr;q=x,ru;q=-1,ko;q=inf", ""),
        (";;;,,,=,q=1", ""),
        ("xx," * 5000 + "fr", ""),
        ("\x00\ud800", ""),
    ],
)
def test_the_browser_says_what_its_owner_reads(header: str, language: str) -> None:
    assert preferred(header) == language


async def test_a_page_is_in_one_language_and_keeps_it(site: Site) -> None:
    await site.services.lists.create("contoso1", "Contoso", "news@contoso.example")
    visitor = site.visitor()
    for code in LANGUAGES:
        for how in ({"headers": {"Accept-Language": code}}, {"params": {"lang": code}}):
            for path in ("/subscribe", "/confirm", "/unsubscribe"):
                page = await visitor.get(path, **how)
                assert f'<html lang="{code}">' in page.text
                assert page.headers["content-language"] == code
                assert page.headers["vary"] == "Accept-Language"
                assert f'hreflang="{code}" rel="nofollow" aria-current="true"' in page.text
        page = await visitor.get(f"/subscribe?list=contoso1&lang={code}")
        assert f'action="/subscribe?list=contoso1&amp;lang={code}"' in page.text
        assert Translator(code)("Your email address") in page.text
    unknown = await visitor.get("/subscribe?lang=xx", headers={"Accept-Language": "ru"})
    assert '<html lang="ru">' in unknown.text


async def test_a_list_uses_its_own_language_for_visitors_whose_language_is_unknown(
    site: Site,
) -> None:
    await site.services.lists.create(
        "contoso1", "Contoso", "news@contoso.example", language="de", public=True
    )
    added = await site.services.subscriptions.add("contoso1", "ann@example.com", verified=True)
    link = f"?id={added.guid}&listName=contoso1"
    visitor = site.visitor()
    for path in ("/subscribe?list=contoso1", f"/confirm{link}", f"/unsubscribe{link}"):
        for unknown in ("", "ja,es;q=0.5"):
            page = await visitor.get(path, headers={"Accept-Language": unknown})
            assert '<html lang="de">' in page.text, path
            assert page.headers["content-language"] == "de"
        known = await visitor.get(path, headers={"Accept-Language": "ko"})
        assert '<html lang="ko">' in known.text, path


async def test_a_confirmation_is_in_the_lists_language_if_the_visitors_is_unknown(
    site: Site,
) -> None:
    await site.services.lists.create("contoso1", "Contoso", "news@contoso.example", language="ru")
    form = {"list": "contoso1", "email": "ann@example.com"}
    await site.visitor().http.post("/subscribe", data=form, headers={"Accept-Language": "ja"})
    both = await confirmation_sent(site)
    assert '<html lang="ru">' in both["text/html"]
    # The browser that opens the link decides about the page.
    assert "lang=" not in both["text/plain"]


async def test_a_sign_up_in_french_gets_a_french_email_with_a_link_to_french_pages(
    site: Site,
) -> None:
    await site.services.lists.create("contoso1", "Contoso", "news@contoso.example")
    visitor = site.visitor()
    await visitor.http.post(
        "/subscribe", data={"list": "contoso1", "email": "ann@example.com", "lang": "fr"}
    )
    both = await confirmation_sent(site)
    assert '<html lang="fr">' in both["text/html"]
    [link] = re.findall(r"http://localhost:0(/confirm\S+)", both["text/plain"])
    assert link.endswith("&listName=contoso1&lang=fr")
    page = await visitor.get(link, headers={"Accept-Language": "de"})
    assert "Confirmez votre abonnement" in page.text


def test_a_name_that_ends_with_a_full_stop_ends_its_sentence() -> None:
    sentence = "You will continue to receive %(list)s."
    _ = Translator("en")
    assert _(sentence, list="Garten e. V.") == "You will continue to receive Garten e. V."
    assert _(sentence, list="News") == "You will continue to receive News."
    assert Translator("de")(sentence, list="Garten e. V.") == "Sie erhalten Garten e. V. weiterhin."


async def confirmation_sent(site: Site) -> dict[str, str]:
    """Send what is queued, and return the bodies of the one confirmation email."""
    [both] = await emails_sent(site)
    return both


async def emails_sent(site: Site) -> list[dict[str, str]]:
    """Send the confirmations that are queued, and return the bodies of all emails."""
    settings = site.context.settings
    async with opened_transport(settings) as transport:
        stopping = asyncio.Event()
        confirmations = make_confirmations(site.services, transport, settings)
        sending = asyncio.create_task(confirmations.run(stopping))
        queue = site.services.store.queue(CONFIRM_QUEUE)
        for _ in range(1200):
            if not (await queue.info()).length:
                break
            await asyncio.sleep(0.05)
        stopping.set()
        await sending
    files = (settings.storage.data / "outbox").rglob("*.eml")
    return [bodies(parse(each.read_bytes())) for each in files]
