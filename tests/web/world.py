"""A site with something of everything, and an address for each of its pages."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import EVERY_LIST, ListName, Subscriber
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.domain.messages.delivery.providers import Provider
from postroom.domain.messages.delivery.warm_up import WarmUpPlan
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.hits import PersonHits
from postroom.domain.messages.messages import Message, MessageFormat
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.tracking import Track
from postroom.domain.queues.apps import App
from postroom.scheduler.completion import Completion
from postroom.services.accounts.users import Role
from postroom.services.audience.signup.changed_details import CHANGES
from postroom.services.audience.signup.preferences import ADDRESS_CHANGE
from postroom.services.events import Severity
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.drafts.templates import TemplateContent
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.provider_rates import ProviderLimit
from postroom.services.messages.sending_options import SendingOptions
from postroom.services.queues.attempts import AttemptFailure
from postroom.services.queues.hosts import AppStatus, ProcessStatus
from postroom.storage import Entity, Value
from postroom.web.app import VIEWS
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.services.pictures import animation, picture
from tests.unit.audience.test_images import png
from tests.web.site import Site, Visitor

LIST, OTHER, SHOP = "garden-club", "empty.list", "shop"
ANN, NOT_YET, BLOCKED = "ann@example.com", "bob+tag@example.org", "carol@example.net"
SUPPRESSED = "user000@example.com"
HTML = (
    '<h1>Hello</h1><p>Dear {{ email | default: "reader" }},'
    ' <a href="{{ unsubscribe_url }}">leave</a></p>'
)
SOURCES = {
    MessageFormat.BLOCKS: """{"version": 1, "blocks": [{"type": "heading", "text": "Hello"},
        {"type": "columns", "columns": [[{"type": "text", "html": "<p>One</p>"}], []]},
        {"type": "button", "text": "More", "link": "https://www.example.com"}]}""",
    MessageFormat.MARKDOWN: "# Hello\n\nDear {{ email }}, *welcome*.\n",
    MessageFormat.MJML: "<mjml><mj-body><mj-nothing></mj-nothing></mj-body></mjml>",
}
QUEUE = "shop/orders"
FIELDS = (
    Field("town", label="Your <town>", public=True),
    Field("born", FieldType.DATE, label="Date of birth", public=True),
    Field("plan", FieldType.CHOICE, label="Plan", choices=("Free", "Pro"), public=True),
    Field("topics", FieldType.CHOICES, label="Topics", choices=("Art", "Music"), public=True),
    Field("helps", FieldType.BOOLEAN, label="I can help", public=True),
)

# Answers that are no page of ours: files, streams, parts of a page, and documents that somebody
# wrote, which are shown in a frame without rights.
NOT_PAGES = frozenset(
    {
        "/archive",
        "/subscribe/style.css",
        "/subscribe/form.js",
        "/subscribe/challenge",
        "/logo/{name}",
        "/media/{name}",
        "/archive/{list}/feed.xml",
        "/archive/{list}/{ref}/html",
        "/view/html",
        "/messages/{ref}/results.csv",
        "/messages/{ref}/heat-map",
        "/messages/{ref}/segments",
        "/messages/{ref}/segments.csv",
        "/results.csv",
        "/home/state",
        "/home/messages",
        "/home/figures",
        "/lists/{name}/export",
        "/trace/export",
        "/suppressions/export",
        "/lists/{name}/brand/email",
        "/lists/{name}/emails/sample",
        "/lists/{name}/segments/size",
        "/lists/{name}/import/{run}/rejected.csv",
        "/messages/{ref}/preview/html",
        "/messages/canvas",
        "/pictures/choose",
        "/messages/audience",
        "/templates/{name}/preview",
        "/messages/{ref}/events",
        "/messages/{ref}/waiting",
        "/messages/{ref}/preflight",
        "/outbox/{name}/html",
        "/outbox/{name}/download",
        "/explorer/containers/{container}/download",
    }
)

# Where to see each view: `World.names` fills in what is in braces.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "/subscribe": (
        "/subscribe",
        "/subscribe?list={list}",
        "/subscribe?list={list}&lang=ko",
        "/subscribe?list={shop}",
        "/subscribe?list={shop}&embed=1&lang=fr",
        "/subscribe?list=nope",
    ),
    "/confirm": (
        "/confirm?id={guid_not_yet}&listName={list}",
        "/confirm?id={guid_not_yet}&listName={list}&lang=ru",
        "/confirm?id={guid}&listName={list}",
        "/confirm?id=x&listName={list}",
    ),
    "/unsubscribe": (
        "/unsubscribe?id={guid}&listName={list}",
        "/unsubscribe?id={guid}&listName={list}&lang=de",
        "/unsubscribe?id={guid_of_nobody}&listName={list}&lang=fr",
    ),
    "/unsubscribe/imported": (
        "/unsubscribe/imported?id={foreign_id}",
        "/unsubscribe/imported?id=of-nobody-at-all&lang=ko",
        "/unsubscribe/imported?id=x",
    ),
    "/archive/{list}": (
        "/archive/{list}",
        "/archive/{list}?q=done&lang=ko",
        "/archive/{list}?q=nothing",
        "/archive/{other}",
        "/archive/nope",
    ),
    "/archive/{list}/{ref}": ("/archive/{list}/{done}", "/archive/{list}/{running}"),
    "/view": ("/view?ref={done}&key={web_key}", "/view"),
    "/preferences": (
        "/preferences?id={guid}&listName={list}",
        "/preferences?id={guid}&listName={list}&lang=ko",
        "/preferences?id={guid_not_yet}&listName={list}",
        "/preferences?id={guid_of_nobody}&listName={list}",
    ),
    "/confirm/changes": (
        "/confirm/changes?id={guid}&listName={list}&changes={changes}",
        "/confirm/changes?id={guid}&listName={list}&changes=wrong&lang=ko",
        "/confirm/changes?id={guid_of_nobody}&listName={list}&changes={changes}",
    ),
    "/preferences/address": (
        "/preferences/address?listName={list}&token={address_change}",
        "/preferences/address?listName={list}&token=wrong",
    ),
    "/setup": ("/setup?token=wrong",),
    "/login": ("/login", "/login?next=/lists"),
    "/forgotten": ("/forgotten",),
    "/join": ("/join?token={invitation}", "/join?token={new_password}", "/join?token=used"),
    "/account": ("/account",),
    "/account/second-factor": ("/account/second-factor",),
    "/users": ("/users",),
    "/users/details": ("/users/details?email={viewer}",),
    "/users/remove": ("/users/remove?email={viewer}",),
    "/groups/details": ("/groups/details?name={group}", "/groups/details?name=nope"),
    "/groups/remove": ("/groups/remove?name={group}",),
    "/keys": ("/keys",),
    "/keys/details": ("/keys/details?id={key}",),
    "/keys/revoke": ("/keys/revoke?id={key}",),
    "/": ("/",),
    "/templates": ("/templates",),
    "/templates/new": ("/templates/new", "/templates/new?from=letter"),
    "/templates/{name}": ("/templates/newsletter", "/templates/own"),
    "/templates/{name}/edit": ("/templates/own/edit",),
    "/templates/{name}/delete": ("/templates/own/delete",),
    "/lists": (
        "/lists",
        "/lists?q=gar&sort=-subscribers",
        "/lists?q=nothing",
        "/lists?sort=nothing",
    ),
    "/lists/new": ("/lists/new",),
    "/lists/{name}": ("/lists/{list}", "/lists/{other}", "/lists/nope"),
    "/lists/{name}/people": ("/lists/{list}/people",),
    "/lists/{name}/edit": ("/lists/{list}/edit",),
    "/lists/{name}/delete": ("/lists/{list}/delete",),
    "/lists/{name}/signup-page": ("/lists/{list}/signup-page", "/lists/{shop}/signup-page"),
    "/lists/{name}/brand": ("/lists/{list}/brand", "/lists/{other}/brand"),
    "/lists/{name}/emails": (
        "/lists/{list}/emails",
        "/lists/{other}/emails?kind=welcome&language=ru",
    ),
    "/lists/{name}/fields": ("/lists/{list}/fields", "/lists/{other}/fields"),
    "/lists/{name}/field": (
        "/lists/{list}/field",
        "/lists/{list}/field?field=town",
        "/lists/{list}/field?field=plan",
        "/lists/{list}/field?field=nope",
    ),
    "/lists/{name}/field/delete": ("/lists/{list}/field/delete?field=town",),
    "/fields": ("/fields",),
    "/field": ("/field", "/field?field=membership", "/field?field=nope"),
    "/field/delete": ("/field/delete?field=membership",),
    "/lists/{name}/segments": ("/lists/{list}/segments", "/lists/{other}/segments"),
    "/lists/{name}/segment": (
        "/lists/{list}/segment",
        "/lists/{list}/segment?segment=new-in-bern",
        "/lists/{list}/segment?segment=nope",
    ),
    "/lists/{name}/inactive": (
        "/lists/{list}/inactive",
        "/lists/{list}/inactive?days=365",
        "/lists/{other}/inactive",
    ),
    "/lists/{name}/segment/delete": ("/lists/{list}/segment/delete?segment=new-in-bern",),
    "/lists/{name}/import": ("/lists/{list}/import",),
    "/lists/{name}/import/listmonk": ("/lists/{list}/import/listmonk",),
    "/lists/{name}/import/{run}": (
        "/lists/{list}/import/{run}",
        "/lists/{list}/import/{preview}",
        "/lists/{list}/import/nope",
    ),
    "/lists/{name}/subscribers": (
        "/lists/{list}/subscribers",
        "/lists/{list}/subscribers?state=verified&q=user0&sort=-since",
        "/lists/{list}/subscribers?q=nobody",
        "/lists/{other}/subscribers",
    ),
    "/lists/{name}/subscribers/add": ("/lists/{list}/subscribers/add",),
    "/lists/{name}/subscribers/{email:path}/delete": ("/lists/{list}/subscribers/{ann}/delete",),
    "/lists/{name}/subscribers/{email:path}": (
        "/lists/{list}/subscribers/{ann}",
        "/lists/{list}/subscribers/{blocked}",
        "/lists/{list}/subscribers/{not_yet}",
        "/lists/{list}/subscribers/{suppressed}",
    ),
    "/domains": ("/domains",),
    "/domains/details": (
        "/domains/details?domain=example.com",
        "/domains/details?domain=unused.example",
        "/domains/details?domain=x",
    ),
    "/domains/check": ("/domains/check?domain=example.com",),
    "/domains/keys/deactivate": ("/domains/keys/deactivate?domain=example.com&selector=one",),
    "/domains/keys/remove": ("/domains/keys/remove?domain=example.com&selector=two",),
    "/suppressions": (
        "/suppressions",
        "/suppressions?q=DAN",
        "/suppressions?q=nothing",
        "/suppressions?after=x",
    ),
    "/suppressions/add": ("/suppressions/add",),
    "/suppressions/lift": ("/suppressions/lift?email={suppressed}",),
    "/suppressions/import": ("/suppressions/import",),
    "/providers": ("/providers",),
    "/providers/limit": (
        "/providers/limit",
        "/providers/limit?provider=gmail.com",
        "/providers/limit?provider=no",
    ),
    "/providers/warm-up": (
        "/providers/warm-up",
        "/providers/warm-up?domain=all",
        "/providers/warm-up?domain=no",
    ),
    "/messages": ("/messages", "/messages?list=nothing"),
    "/messages/sending": ("/messages/sending",),
    "/messages/sent": ("/messages/sent", "/messages/sent?list=nothing"),
    "/messages/drafts": ("/messages/drafts", "/messages/drafts?list=nothing"),
    "/messages/new": ("/messages/new", "/messages/new?list={list}"),
    "/messages/{ref}/edit": (
        "/messages/{draft}/edit",
        "/messages/{blocks}/edit",
        "/messages/{markdown}/edit",
        "/messages/{mjml}/edit",
        "/messages/{pending}/edit",
        "/messages/{done}/edit",
    ),
    "/messages/{ref}/format": ("/messages/{markdown}/format?to=blocks",),
    "/messages/{ref}/versions": ("/messages/{draft}/versions", "/messages/{empty}/versions"),
    "/messages/{ref}/schedule": ("/messages/{draft}/schedule", "/messages/{empty}/schedule"),
    "/messages/{ref}/follow-up": ("/messages/{done}/follow-up", "/messages/{pending}/follow-up"),
    "/messages/{ref}/ab-test": (
        "/messages/{draft}/ab-test",
        "/messages/{ab_draft}/ab-test",
        "/messages/{ab_running}/ab-test",
        "/messages/{done}/ab-test",
    ),
    "/messages/{ref}/ab-test/winner": (
        "/messages/{ab_running}/ab-test/winner?winner={ab_running}",
        "/messages/{ab_running}/ab-test/winner?winner=nobody",
    ),
    "/messages/{ref}/ab-test/cancel": (
        "/messages/{ab_draft}/ab-test/cancel",
        "/messages/{ab_running}/ab-test/cancel",
    ),
    "/messages/{ref}/preview": ("/messages/{pending}/preview",),
    "/messages/{ref}/cancel": ("/messages/{running}/cancel",),
    "/messages/{ref}/delete": ("/messages/{pending}/delete",),
    "/messages/{ref}/retry": ("/messages/{done}/retry",),
    "/messages/{ref}/emails": (
        "/messages/{running}/emails",
        "/messages/{running}/emails?outcome=in_doubt",
        "/messages/{done}/emails?outcome=refused",
        "/messages/{done}/emails?q=nobody",
    ),
    "/messages/{ref}/bounces": (
        "/messages/{done}/bounces",
        "/messages/{done}/bounces?kind=full",
        "/messages/{done}/bounces?after=x",
    ),
    "/results": ("/results", "/results?list={list}", "/results?list={other}"),
    "/messages/{ref}/report": ("/messages/{done}/report", "/messages/{pending}/report"),
    "/messages/{ref}/people": (
        "/messages/{personal}/people",
        "/messages/{done}/people",
        "/messages/{done}/people?after=x",
    ),
    "/messages/{ref}": (
        "/messages/{pending}",
        "/messages/{running}",
        "/messages/{paused}",
        "/messages/{done}",
        "/messages/{cancelled}",
    ),
    "/pictures": ("/pictures", "/pictures?q=CAT", "/pictures?q=nothing", "/pictures?after=x"),
    "/pictures/{hash}": ("/pictures/{picture}", "/pictures/{unused}"),
    "/pictures/{hash}/delete": ("/pictures/{unused}/delete",),
    "/trace": (
        "/trace",
        "/trace?email={ann}",
        "/trace?email={suppressed}",
        "/trace?email=nobody@example.com",
        "/trace?email=Ann@Example.com",
        "/trace?email=nobody",
    ),
    "/trace/erase": ("/trace/erase?email={ann}", "/trace/erase?email=nobody@example.com"),
    "/queues": ("/queues",),
    "/queues/{name:path}": (
        "/queues/{queue}",
        "/queues/{queue}%3Bpoison",
        "/queues/{queue}%3Bretry",
        "/queues/never/seen",
    ),
    "/queue/delete": ("/queue/delete?queue={queue}%3Bpoison&id={poison}",),
    "/queue/purge": ("/queue/purge?queue={queue}%3Bpoison",),
    "/apps": ("/apps", "/apps?queue={queue}/new"),
    "/apps/settings": ("/apps/settings?path=/{queue}",),
    "/outbox": ("/outbox", "/outbox?q=test", "/outbox?q=nobody@example.com"),
    "/outbox/delete-all": ("/outbox/delete-all",),
    "/outbox/{name}": ("/outbox/{mail}",),
    "/explorer": ("/explorer",),
    "/explorer/tables/{table}": (
        "/explorer/tables/mailinglist",
        "/explorer/tables/users",
        "/explorer/tables/departed",
    ),
    "/explorer/tables/{table}/rows": ("/explorer/tables/departed/rows?partition=one",),
    "/explorer/tables/{table}/entity": (
        "/explorer/tables/departed/entity?partition=one&row=first",
        "/explorer/tables/departed/entity?partition=one&row=nope",
    ),
    "/explorer/tables/{table}/delete": (
        "/explorer/tables/departed/delete?partition=one&row=first",
    ),
    "/explorer/containers/{container}": ("/explorer/containers/mailbodies",),
    "/explorer/containers/{container}/delete": (
        "/explorer/containers/mailbodies/delete?name=some.txt",
    ),
    "/audit": ("/audit", "/audit?who=nobody@example.com"),
    "/events": ("/events", "/events?severity=error"),
    "/settings": ("/settings",),
    "/settings/mail-server": (
        "/settings/mail-server",
        "/settings/mail-server?preset=gmail",
        "/settings/mail-server?preset=nobody",
    ),
    "/settings/mail-server/remove": ("/settings/mail-server/remove",),
    "/settings/bounces": ("/settings/bounces",),
    "/settings/alerts": ("/settings/alerts",),
    "/search": ("/search", "/search?q=ann", "/search?q=no+such+thing"),
    "/system/components": ("/system/components",),
    "/embed": ("/embed", "/embed?list={list}", "/embed?list={list}&also={shop}"),
    "/api/docs": ("/api/docs",),
}

# Not pages, but they read queries, too.
FILES: dict[str, tuple[str, ...]] = {
    "/subscribe/style.css": ("/subscribe/style.css?colour=123456",),
    "/subscribe/form.js": ("/subscribe/form.js",),
    "/subscribe/challenge": ("/subscribe/challenge?list={shop}",),
    "/logo/{name}": ("/logo/{list}",),
    "/media/{name}": ("/media/{picture_file}",),
    "/archive/{list}/feed.xml": ("/archive/{list}/feed.xml",),
    "/archive/{list}/{ref}/html": ("/archive/{list}/{done}/html",),
    "/view/html": ("/view/html?ref={done}&key={web_key}",),
    "/home/state": ("/home/state",),
    "/messages/{ref}/results.csv": ("/messages/{done}/results.csv",),
    "/messages/{ref}/segments": ("/messages/{done}/segments",),
    "/messages/{ref}/segments.csv": ("/messages/{done}/segments.csv",),
    "/results.csv": ("/results.csv",),
    "/messages/{ref}/heat-map": ("/messages/{done}/heat-map",),
    "/messages/audience": ("/messages/audience?list={list}",),
    "/home/messages": ("/home/messages",),
    "/home/figures": ("/home/figures",),
    "/lists/{name}/export": ("/lists/{list}/export",),
    "/lists/{name}/segments/size": ("/lists/{list}/segments/size?segment=new-in-bern",),
    "/trace/export": ("/trace/export?email={ann}",),
    "/suppressions/export": ("/suppressions/export",),
    "/messages/{ref}/preflight": ("/messages/{draft}/preflight",),
    "/explorer/containers/{container}/download": (
        "/explorer/containers/mailbodies/download?name=some.txt",
    ),
}


@dataclass(frozen=True)
class World:
    site: Site
    admin: Visitor
    names: dict[str, str]

    def addresses(self, path: str) -> list[str]:
        """Where a page of `VIEWS` can be seen; a new page needs an example first."""
        found = EXAMPLES.get(path) or FILES[path]
        return [each.format(**self.names) for each in found]

    def all_addresses(self) -> list[str]:
        return [address for path in shown_pages() for address in self.addresses(path)]


def shown_pages() -> list[str]:
    """The paths of all pages that a browser can get."""
    found = dict.fromkeys(page.path for page in VIEWS if "GET" in page.methods)
    return [path for path in found if path not in NOT_PAGES]


async def furnished(site: Site) -> World:
    """Make something of everything."""
    services = site.services
    admin = await site.user(Role.ADMINISTRATOR)
    viewer = await site.user(Role.VIEWER)
    assert viewer.user is not None
    names = {"list": LIST, "other": OTHER, "shop": SHOP, "queue": QUEUE}
    names |= {"ann": ANN, "blocked": BLOCKED, "suppressed": SUPPRESSED}
    names |= {"viewer": viewer.user.email, "guid_of_nobody": "00000000-0000-4000-8000-000000000000"}
    await _lists(site, names)
    await _messages(site, names)
    await _queues(site, names)
    source = "<mjml><mj-body>{% slot content %}{% footer %}</mj-body></mjml>"
    await services.templates.create("own", TemplateContent("Our own", source), "ann")
    names["invitation"] = await services.access_links.invite("eve@example.org", Role.EDITOR, "ann")
    names["new_password"] = await services.access_links.reset(viewer.user.email, "ann")
    names["key"] = (await services.keys.create("the shop", ("subscribe",))).key.id
    await services.keys.create()
    await _bounces(site, names)
    await services.groups.create("press")
    await services.groups.add("press", viewer.user.email)
    names["group"] = "press"
    manage = frozenset({ListRight.VIEW, ListRight.MANAGE})
    await services.list_grants.set("group:press", ListName(SHOP), manage)
    await services.list_grants.set(f"key:{names['key']}", ListName(SHOP), manage)
    for severity in Severity:
        await services.events.record("a part", f"Something <b>{severity}</b>", severity=severity)
    scratch: dict[str, Value] = {
        "Text": "a\nb",
        "Number": 1,
        "Flag": True,
        "When": datetime.now(UTC),
        "Raw": b"\0",
    }
    await services.store.table("departed").insert(Entity("one", "first", scratch))
    await services.store.container("mailbodies").put("some.txt", b"some text")
    names["mail"] = await _outbox(admin)
    await services.dkim_keys.create("example.com", "ed25519", "one")
    await services.dkim_keys.activate("example.com", "one")
    await services.dkim_keys.create("example.com", "rsa", "two")
    await _pictures(site, names)
    names["run"] = await _import(admin, confirm=True)
    names["preview"] = await _import(admin, confirm=False)
    await services.growth.count_due()
    return World(site, admin, names)


async def _lists(site: Site, names: dict[str, str]) -> None:
    services = site.services
    made = await services.lists.create(LIST, "Garden & <club>", "garden@example.com")
    made = await services.lists.edit(LIST, colour="#2e7d32", welcome_text="Hi", etag=made.etag)
    await services.logos.put(LIST, png(), made.etag)
    await services.lists.create(OTHER, "Nobody yet", "none@example.com")
    await services.lists.create(
        SHOP,
        "Shop news",
        "shop@example.com",
        consent_text="I agree.",
        privacy_url="https://www.example.com/privacy",
        proof_of_work=True,
        allowed_origins="https://www.example.com",
        thank_you_url="https://www.example.com/thanks",
    )
    await services.fields.declare(LIST, FIELDS)
    await services.fields.declare(EVERY_LIST, [Field("membership", label="Member since")])
    await services.lists.edit(LIST, ask_name=True)
    ann = await services.subscriptions.add(LIST, ANN, verified=True)
    names["guid"] = ann.guid
    names["foreign_id"] = "an-id-of-another-tool"
    await services.foreign_ids.note(ann.list_name, {names["foreign_id"]: ann.guid})
    names["address_change"] = await _address_change(site, ann)
    names["not_yet"] = quote(NOT_YET)
    names["guid_not_yet"] = (await services.subscriptions.add(LIST, NOT_YET)).guid
    await services.subscriptions.add(LIST, BLOCKED, verified=True)
    await services.subscriptions.edit(LIST, BLOCKED, blocked="asked us by telephone")
    for number in range(60):
        await services.subscriptions.add(LIST, f"user{number:03}@example.com", verified=True)
    values = {"town": '<b>"Bern"</b>', "plan": "Free", "born": "1990-01-31", "first_name": "Ann"}
    await services.subscriptions.edit(LIST, ANN, attributes=values)
    names["changes"] = await _changes(site)
    rule = 'town contains "Bern" and (plan in ("free", "pro") or not joined within 7 days)'
    await services.segments.create(LIST, "new-in-bern", rule)


async def _bounces(site: Site, names: dict[str, str]) -> None:
    """Let the mailbox of somebody who got a message turn out to be dead, and suppress others."""
    bounce = Bounce(
        BounceKind.GONE,
        "an event",
        BounceSource.SMTP,
        datetime.now(UTC),
        ListName(LIST),
        address=Address(SUPPRESSED),
        ref=MessageRef(names["done"]),
        diagnostic="550 5.1.1 <user000@example.com>: no such user & no such mailbox",
        status="5.1.1",
        by_code=True,
    )
    await site.services.suppressions.record(bounce)
    await site.services.delivery_figures.count(await site.services.messages.get(names["done"]))
    gmail, rates = Provider("gmail.com"), site.services.provider_rates
    await rates.throttled(gmail, 90.0, "421 4.7.28 Gmail has detected an <unusual> rate of mail")
    await rates.set_limit(gmail, ProviderLimit(200.0, 8))
    today = datetime.now(UTC).date()
    await site.services.warm_ups.save(WarmUpPlan("contoso.example", today, (50, 100, 500)))
    until = datetime.now(UTC) + timedelta(days=30)
    await site.services.suppressions.suppress(
        "dan@example.org", "asked <us> by telephone", source="ann", list_name=LIST, expires_at=until
    )


async def _address_change(site: Site, subscriber: Subscriber) -> str:
    """Return the token in the email to a new address."""
    await site.services.preferences.request_address(
        subscriber, Address("ann@example.org"), language="", place=""
    )
    [item] = await site.services.store.queue(CONFIRM_QUEUE).peek(32)
    await site.services.store.queue(CONFIRM_QUEUE).purge()
    return quote(item.properties[ADDRESS_CHANGE])


async def _changes(site: Site) -> str:
    """Return what stands for changes in the email to somebody who has signed up again."""
    await site.services.subscriptions.subscribe(
        LIST, ANN, attributes={"first_name": "<i>Anna</i>"}, place="", may_change=True
    )
    [item] = await site.services.store.queue(CONFIRM_QUEUE).peek(32)
    await site.services.store.queue(CONFIRM_QUEUE).purge()
    return item.properties[CHANGES]


async def _messages(site: Site, names: dict[str, str]) -> None:
    services = site.services
    kinds = [EmailOutcome.ACCEPTED, EmailOutcome.REFUSED, EmailOutcome.SUPPRESSED]
    done = await _fanned_out(site, "What was & is done")
    planned = (await services.outcomes.counts(done)).planned
    await settle(services, done, 0, [kinds[number % 3] for number in range(planned)])
    assert await Completion(services).check(done)
    await services.publishing.publish(done.ref, True)
    names["web_key"] = done.web_key
    names["personal"] = await _opened(site)
    running = await _fanned_out(site, "Under way")
    await settle(services, running, 0, [*kinds, EmailOutcome.IN_DOUBT])
    pending = await _scheduled(site, "For later")
    paused = await _scheduled(site, "Not so fast")
    await services.message_states.pause(paused.ref, "the mail server refuses everybody")
    cancelled = await _scheduled(site, "Never")
    await services.message_states.cancel(cancelled.ref)
    names |= {
        "done": done.ref, "running": running.ref, "pending": pending.ref, "paused": paused.ref,
        "cancelled": cancelled.ref, **await _drafts(site), **await _ab_tests(site),
    }  # fmt: skip


async def _ab_tests(site: Site) -> dict[str, str]:
    """A test that is being prepared, and one whose variants have been sent."""
    names: dict[str, str] = {}
    tests = site.services.ab_tests
    for name in ("ab_draft", "ab_running"):
        change = ContentChange(list_name=LIST, subject="A <b>", body="<p>Hi</p>", text="Hi")
        names[name] = ref = (await site.services.composing.create(change, ANN)).ref
        await tests.create(ref, ANN)
        await tests.add(ref, ContentChange(subject="B & b", from_name="Ann <Co>"), ANN)
    await tests.start(names["ab_running"], share=40)
    test = await tests.advance(MessageRef(names["ab_running"]))
    for each in test.variants:
        message = await fan_out_whole(site.services.store, each)
        planned = (await site.services.outcomes.counts(message)).planned
        await settle(site.services, message, 0, [EmailOutcome.ACCEPTED] * planned)
        assert await Completion(site.services).check(message)
    return names


async def _opened(site: Site) -> str:
    """Return a message that somebody opened who agrees that it is recorded."""
    services = site.services
    ann = await services.subscriptions.get(LIST, ANN)
    await services.preferences.save(ann, {}, "", tracking=True)
    html = NewBodies('<a href="https://www.example.com/?a=1&b=<2>">Read</a>')
    at, track = datetime.now(UTC), Track.PERSONAL
    message = await services.messages.create(
        LIST, "About <you>", html, at, options=SendingOptions(track=track)
    )
    message = await fan_out_whole(services.store, message.ref)
    planned = (await services.outcomes.counts(message)).planned
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * planned)
    await services.link_tables.tracking(message, html.html or "", "https://lists.example.com")
    await services.personal_hits.record(message, {ann.guid: PersonHits(at, at, frozenset({1}))})
    return message.ref


async def _drafts(site: Site) -> dict[str, str]:
    """A draft that somebody else has changed and handed over, and one that lacks everything."""
    composing = site.services.composing
    first = ContentChange(list_name=LIST, subject="Winter", body="<p>One</p>\n<p>Cold</p>", text="")
    draft = await composing.create(first, "bob@example.com")
    change = ContentChange(subject="Winter sale", body="<p>One</p>\n<p>Very cold</p>", text="")
    await composing.save(draft.ref, change, "ann@example.com")
    await composing.hand_over(draft.ref, "ann@example.com")
    names: dict[str, str] = {
        "draft": draft.ref,
        "empty": (await composing.create(ContentChange(), ANN)).ref,
    }
    for format, body in SOURCES.items():
        made = ContentChange(list_name=LIST, subject="Formats", format=format, body=body, text="")
        names[format.value] = (await composing.create(made, ANN)).ref
    return names


async def _scheduled(site: Site, subject: str) -> Message:
    at = datetime.now(UTC) + timedelta(days=2)
    return await site.services.messages.create(LIST, subject, NewBodies(HTML), at)


async def _fanned_out(site: Site, subject: str) -> Message:
    message = await site.services.messages.create(
        LIST, subject, NewBodies(HTML, "Hello"), datetime.now(UTC)
    )
    return await fan_out_whole(site.services.store, message.ref)


async def _queues(site: Site, names: dict[str, str]) -> None:
    services = site.services
    app = App(f"/{QUEUE}", handler="orders:process", receive_retry_count=0, max_retry_cycles=0)
    await services.apps.add(app)
    await services.queues.put(QUEUE, "bad <order>", properties={"key": "value"})
    [message] = await services.store.queue(QUEUE).receive(lease=30)
    await services.queues.failed(message, app, AttemptFailure("KeyError: <sku>", "Traceback: here"))
    [poison] = await services.store.queue(f"{QUEUE};poison").peek(1)
    names["poison"] = poison.id
    for number in range(3):
        await services.queues.put(QUEUE, f"order {number}")
    process = ProcessStatus(4711, "ready", datetime.now(UTC), in_progress=2, handled=12345)
    running = AppStatus(app.path, "running", "", (process,), 1)
    await services.hosts.report("one-1", "one", [running])
    await services.hosts.report("two-2", "two", [AppStatus(app.path, "stopped", "open", (), 5, 5)])


async def _pictures(site: Site, names: dict[str, str]) -> None:
    """One picture that a message uses, and one that nobody uses."""
    services = site.services
    used, _ = await services.pictures.upload(picture("JPEG"), "used.jpg", by=ANN)
    unused, _ = await services.pictures.upload(animation(), "a <b>cat</b>.gif", "A cat", by=ANN)
    text = NewBodies(None, f"Hello. Look: https://contoso.com{used.path}")  # nothing loads it
    await services.messages.edit(names["pending"], bodies=text)
    names |= {"picture_file": used.file_name, "picture": used.hash, "unused": unused.hash}


async def _outbox(admin: Visitor) -> str:
    """Send a test email; return its name in the outbox."""
    form = {"list": LIST, "subject": "A test", "body": HTML, "test_to": ANN}
    sent = await admin.post("/messages/test", form)
    assert sent.status_code == 200, sent.text
    index = await admin.get("/outbox")
    return index.text.partition('data-name="')[2].partition('"')[0]


async def _import(admin: Visitor, *, confirm: bool) -> str:
    """Return the name of an import with lines that are refused: over, or only previewed."""
    content = b"email,status,city\ndora@example.com,active,Rome\n<b>nobody,,\n"
    file = {"file": ("people.csv", content, "text/csv")}
    begun = await admin.post(f"/lists/{LIST}/import", {}, files=file)
    assert begun.status_code == 303, begun.text
    run: str = begun.headers["location"].rpartition("/")[2]
    await _until_idle(admin, run)
    if confirm:
        await admin.post(f"/lists/{LIST}/import/{run}", {"action": "import"})
        await _until_idle(admin, run)
    return run


async def _until_idle(admin: Visitor, run: str) -> None:
    for _ in range(600):
        found = await admin.site.context.import_runs.find(LIST, run)
        if found is not None and not found.is_running:
            return
        await asyncio.sleep(0.05)
    raise TimeoutError("the import did not end within 30 s")
