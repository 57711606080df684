"""Messages on the web: published or by their link, without any subscriber's data."""

from datetime import UTC, datetime
from xml.etree import ElementTree

import feedparser  # type: ignore[import-untyped]
import pytest

from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.messages.messages import Message
from postroom.scheduler.completion import Completion
from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import InboxLines, NewBodies
from postroom.services.messages.sending_options import SendingOptions
from tests.integration.usecases.pages import fan_out_whole
from tests.web.site import Site

ATOM = "{http://www.w3.org/2005/Atom}"
HTML = '<p>Hello {{ email | default: "reader" }}</p><a href="{{ unsubscribe_url }}">Leave</a>'
HOSTILE = """<!DOCTYPE html><html><head><meta http-equiv="refresh" content="0;url=https://evil.example">
<base href="https://evil.example/"><script>document.title="owned"</script></head>
<body onload="parent.location='https://evil.example'"><form action="https://evil.example"><input></form>
<iframe src="/login"></iframe><object data="/login"></object></iframe></main></body></html>"""


async def sent(
    site: Site,
    subject: str = "Winter",
    *,
    published: bool = True,
    html: str = HTML,
    at: datetime | None = None,
    preheader: str = "",
) -> Message:
    """Return a message of the list `news` that is being sent."""
    made = await site.services.messages.create(
        "news",
        subject,
        NewBodies(html),
        at or datetime.now(UTC),
        lines=InboxLines(preheader),
        options=SendingOptions(published=published),
    )
    return await fan_out_whole(site.services.store, made.ref)


@pytest.fixture
async def news(site: Site) -> Site:
    await site.services.lists.create("news", "The <News>", "news@contoso.example")
    await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    return site


async def test_the_archive_lists_published_messages_by_year_and_finds_them(news: Site) -> None:
    visitor = news.visitor()
    await sent(news, "Spring & sale", at=datetime(2024, 3, 1, tzinfo=UTC), preheader="Tulips")
    await sent(news, "Autumn", at=datetime(2025, 10, 1, tzinfo=UTC))
    await sent(news, "Winter", at=datetime(2025, 12, 1, tzinfo=UTC))
    await sent(news, "Internal", published=False)
    newest = await visitor.get("/archive/news")
    assert newest.status_code == 200
    assert newest.text.index("Winter") < newest.text.index("Autumn")
    assert "Spring" not in newest.text
    assert "Internal" not in newest.text
    assert "The &lt;News&gt;" in newest.text
    assert 'content="noindex"' not in newest.text
    older = await visitor.get("/archive/news?year=2024")
    assert "Spring &amp; sale" in older.text
    assert "Autumn" not in older.text
    found = await visitor.get("/archive/news?q=tulips SALE&lang=de")
    assert "Spring &amp; sale" in found.text
    assert "01.03.2024" in found.text
    assert "Winter" not in (await visitor.get("/archive/news?q=nothing")).text


async def test_a_message_is_shown_without_any_subscribers_data(news: Site) -> None:
    visitor = news.visitor()
    first = await sent(news, "First", at=datetime(2025, 1, 1, tzinfo=UTC), preheader="Look <here>")
    second = await sent(news, "Second", at=datetime(2025, 2, 1, tzinfo=UTC))
    third = await sent(news, "Third", at=datetime(2025, 3, 1, tzinfo=UTC))
    page = await visitor.get(f"/archive/news/{second.ref}")
    assert page.status_code == 200
    assert f'href="/archive/news/{first.ref}" rel="prev"' in page.text
    assert f'href="/archive/news/{third.ref}" rel="next"' in page.text
    tags = (await visitor.get(f"/archive/news/{first.ref}")).text
    assert '<meta property="og:title" content="First">' in tags
    assert '<meta property="og:description" content="Look &lt;here&gt;">' in tags
    frame = await visitor.get(f"/archive/news/{second.ref}/html")
    assert "Hello reader" in frame.text
    assert 'href="/subscribe?list=news"' in frame.text
    assert "ann@example.com" not in page.text + frame.text
    assert "/unsubscribe?" not in page.text + frame.text


async def test_hostile_html_is_served_without_any_rights(news: Site) -> None:
    message = await sent(news, '"><script>alert(1)</script>', html=HOSTILE)
    visitor = news.visitor()
    page = await visitor.get(f"/archive/news/{message.ref}")
    assert "<script>alert" not in page.text
    assert 'sandbox="allow-popups allow-popups-to-escape-sandbox"' in page.text
    link = f"/view/html?ref={message.ref}&key={message.web_key}"
    for path in (f"/archive/news/{message.ref}/html", link):
        frame = await visitor.get(path)
        policy = frame.headers["content-security-policy"]
        assert policy.startswith("sandbox ")
        assert "default-src 'none'" in policy
        assert "allow-scripts" not in policy
        assert "allow-same-origin" not in policy
        assert "allow-forms" not in policy
        assert "set-cookie" not in frame.headers


async def test_only_those_with_the_link_see_a_message_that_is_not_published(news: Site) -> None:
    visitor = news.visitor()
    message = await sent(news, published=False)
    assert (await visitor.get(f"/archive/news/{message.ref}")).status_code == 404
    assert (await visitor.get(f"/archive/news/{message.ref}/html")).status_code == 404
    link = f"?ref={message.ref}&key={message.web_key}"
    page = await visitor.get(f"/view{link}")
    assert page.status_code == 200
    assert 'content="noindex"' in page.text
    assert "Hello reader" in (await visitor.get(f"/view/html{link}")).text
    for wrong in (f"?ref={message.ref}", f"?ref={message.ref}&key=x", "?ref=x&key=x", ""):
        assert (await visitor.get(f"/view{wrong}")).status_code == 404
        assert (await visitor.get(f"/view/html{wrong}")).status_code == 404
    scheduled = await news.services.messages.create(
        "news",
        "Later",
        NewBodies("<p>x</p>"),
        datetime(2999, 1, 1, tzinfo=UTC),
        options=SendingOptions(published=True),
    )
    early = f"/view?ref={scheduled.ref}&key={scheduled.web_key}"
    assert (await visitor.get(early)).status_code == 404
    assert (await visitor.get(f"/archive/news/{scheduled.ref}")).status_code == 404
    assert "Later" not in (await visitor.get("/archive/news")).text


async def test_the_feed_is_atom(news: Site) -> None:
    visitor = news.visitor()
    first = await sent(news, "Spring & <sale>", at=datetime(2025, 3, 1, tzinfo=UTC))
    last = await sent(news, "Winter", at=datetime(2025, 12, 1, tzinfo=UTC), preheader="Cold")
    got = await visitor.get("/archive/news/feed.xml")
    assert got.headers["content-type"].startswith("application/atom+xml")
    feed = ElementTree.fromstring(got.content)  # noqa: S314
    assert feed.tag == f"{ATOM}feed"
    # RFC 4287 4.1.1 and 4.1.2: what a feed and each entry must have, exactly once.
    for name in ("id", "title", "updated"):
        assert len(feed.findall(ATOM + name)) == 1
    assert feed.findtext(f"{ATOM}author/{ATOM}name") == "The <News>"
    entries = feed.findall(f"{ATOM}entry")
    assert [each.findtext(f"{ATOM}title") for each in entries] == ["Winter", "Spring & <sale>"]
    for entry, message in zip(entries, (last, first), strict=True):
        for name in ("id", "title", "updated", "published"):
            assert len(entry.findall(ATOM + name)) == 1
        link = entry.find(f"{ATOM}link")
        assert link is not None
        assert link.attrib["rel"] == "alternate"
        assert link.attrib["href"].endswith(f"/archive/news/{message.ref}")
    assert feed.findtext(f"{ATOM}updated") == "2025-12-01T00:00:00Z"
    assert entries[0].findtext(f"{ATOM}summary") == "Cold"


async def test_a_feed_reader_reads_the_feed(news: Site) -> None:
    await sent(news, "Spring & <sale>", at=datetime(2025, 3, 1, tzinfo=UTC))
    last = await sent(news, "Grüße ❄", at=datetime(2025, 12, 1, 7, 30, tzinfo=UTC))
    got = await news.visitor().get("/archive/news/feed.xml")
    read = feedparser.parse(got.content, response_headers=dict(got.headers))
    assert not read.bozo, read.get("bozo_exception")
    assert read.version == "atom10"
    assert read.feed.title == "The <News>"
    assert [each.title for each in read.entries] == ["Grüße ❄", "Spring & <sale>"]
    assert read.entries[0].link.endswith(f"/archive/news/{last.ref}")
    assert read.entries[0].published_parsed[:5] == (2025, 12, 1, 7, 30)
    assert len({each.id for each in read.entries}) == 2


async def test_search_engines_stay_out_where_the_list_says_so(news: Site) -> None:
    visitor = news.visitor()
    message = await sent(news)
    await news.services.lists.edit("news", noindex=True)
    for path in ("", f"/{message.ref}", f"/{message.ref}/html", "/feed.xml"):
        got = await visitor.get(f"/archive/news{path}")
        assert got.headers["x-robots-tag"] == "noindex", path


async def test_a_list_that_is_not_public_has_an_archive_only_of_what_it_published(
    news: Site,
) -> None:
    visitor = news.visitor()
    await news.services.lists.edit("news", public=False)
    assert (await visitor.get("/archive/news")).status_code == 404
    assert (await visitor.get("/archive/news/feed.xml")).status_code == 404
    assert (await visitor.get("/archive/nope")).status_code == 404
    await sent(news)
    page = await visitor.get("/archive/news")
    assert page.status_code == 200
    assert "/subscribe" not in page.text


async def test_publishing_is_a_switch_that_works_at_any_time(news: Site) -> None:
    services, visitor = news.services, news.visitor()
    editor = await news.user(Role.EDITOR)
    message = await sent(news, published=False)
    place = f"/archive/news/{message.ref}"
    said = await editor.said(
        await editor.post(f"/messages/{message.ref}/publish", {"published": "yes"})
    )
    assert said == "Published. The archive shows this message."
    assert (await visitor.get(place)).status_code == 200
    unpublished = await editor.post(f"/messages/{message.ref}/publish", {"published": "no"})
    assert (await visitor.get(place)).status_code == 404
    assert (await editor.undo(unpublished)).startswith("Published.")
    assert (await visitor.get(place)).status_code == 200
    assert place in (await editor.get(f"/messages/{message.ref}")).text
    settled = await services.messages.get(message.ref)
    await services.message_states.cancel(settled.ref)
    assert (await visitor.get(place)).status_code == 404
    assert "Winter" not in (await visitor.get("/archive/news")).text

    done = await sent(news, "Done")
    await services.subscriptions.remove("news", "ann@example.com")
    empty = await sent(news, "Nobody", published=False)
    assert await Completion(services).check(empty)
    await services.publishing.publish(empty.ref, True)
    assert (await services.messages.get(empty.ref)).published
    assert (await visitor.get(f"/archive/news/{empty.ref}")).status_code == 200
    await services.publishing.publish(done.ref, False)
    assert (await visitor.get(f"/archive/news/{done.ref}")).status_code == 404
    await services.messages.remove_done(await services.messages.get(empty.ref))
    assert await services.published.of(empty.list_name) == []
    with pytest.raises(NoSuch):
        await services.publishing.in_archive(empty.list_name, empty.ref)


async def test_a_message_whose_fields_lack_defaults_cannot_be_published(news: Site) -> None:
    services = news.services
    bare = "<p>Hello {{ email }}</p>"
    with pytest.raises(Invalid, match="in the message"):
        await sent(news, html=bare)
    message = await sent(news, published=False, html=bare)
    with pytest.raises(Invalid, match="default"):
        await services.publishing.publish(message.ref, True)
    editor = await news.user(Role.EDITOR)
    refused = await editor.post(f"/messages/{message.ref}/publish", {"published": "yes"})
    assert refused.status_code == 422
    assert not (await services.messages.get(message.ref)).published


async def test_a_deleted_list_leaves_nothing_for_the_next_one_of_its_name(news: Site) -> None:
    await news.services.subscriptions.remove("news", "ann@example.com")
    message = await sent(news)
    assert await Completion(news.services).check(message)
    await news.services.lists.delete("news")
    assert (await news.visitor().get(f"/archive/news/{message.ref}")).status_code == 404
    await news.services.lists.create("news", "Others", "others@contoso.example")
    assert "Winter" not in (await news.visitor().get("/archive/news")).text
