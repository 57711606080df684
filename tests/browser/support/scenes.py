"""Every page of the site, and the ways to those that only a form leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from playwright.async_api import Page, Response

from postroom.web.app import VIEWS
from tests.web.site import PASSWORD
from tests.web.world import ANN, LIST, World, shown_pages

STRANGER, ADMIN, VIEWER, CAREFUL, LATE = "stranger", "admin", "viewer", "careful", "late"
"""Who looks: a stranger, an administrator, a viewer, somebody with a second factor, and an
administrator who has to enter the password again."""

_SEND = """([to, fields]) => {
  const given = new Map(fields.map(([name]) => [name, true]));
  const there = [...document.forms].find((each) => each.getAttribute("action") === to);
  const form = document.createElement("form");
  form.method = "post";
  form.action = to;
  const put = (name, value) => {
    const input = document.createElement("input");
    input.type = "hidden"; input.name = name; input.value = value;
    form.append(input);
  };
  if (there) for (const [name, value] of new FormData(there)) {
    if (!given.has(name) && typeof value === "string") put(name, value);
  }
  const token = document.querySelector("input[name=csrf]");
  if (!there && token) put("csrf", token.value);
  for (const [name, value] of fields) put(name, value);
  document.body.append(form);
  form.submit();
}"""


@dataclass(frozen=True)
class Scene:
    """A page, and what is sent from it to get to another one."""

    who: str
    address: str
    to: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        sent = f" → {self.to} {', '.join(self.fields)}" if self.to else ""
        return f"{self.who}: {self.address}{sent}"

    async def prepare(self, page: Page) -> None:
        """Go to where the form is."""
        if self.to:
            await page.goto(self.address)

    async def open(self, page: Page) -> Response:
        if not self.to:
            response = await page.goto(self.address)
        else:
            async with page.expect_event("load"), page.expect_response(_is_page) as answered:
                await page.evaluate(_SEND, [self.to, list(self.fields.items())])
            response = await answered.value
        assert response is not None, self.name
        return response


def _is_page(response: Response) -> bool:
    """A whole page that was sent for: not a part, not a frame, not a redirection."""
    request = response.request
    is_whole = request.is_navigation_request() and request.frame.parent_frame is None
    return is_whole and not 300 <= response.status < 400


def scenes_of(world: World) -> list[Scene]:
    """All pages that can be got, as those see them who may; then what forms answer."""
    roles = {page.path: page.role for page in VIEWS if "GET" in page.methods}
    plain = [
        Scene(STRANGER if roles[path] is None else ADMIN, address)
        for path in shown_pages()
        for address in world.addresses(path)
    ]
    return [*plain, *_for_viewers(world), *_problems(world), *_answers(world)]


EMPTY: Sequence[str] = (
    *(
        "/",
        "/lists",
        "/messages",
        "/messages/drafts",
        "/messages/sending",
        "/messages/sent",
        "/messages/new",
        "/trace",
        "/queues",
        "/apps",
    ),
    *(
        "/outbox",
        "/events",
        "/embed",
        "/users",
        "/domains",
        "/keys",
        "/audit",
        "/explorer",
        "/account",
    ),
)
"""Pages that say what to do next where there is nothing yet."""


def _for_viewers(world: World) -> list[Scene]:
    names = world.names
    paths = ("/", f"/lists/{LIST}", f"/lists/{LIST}/subscribers", f"/messages/{names['running']}")
    more = (f"/lists/{LIST}/subscribers/{ANN}", f"/queues/{names['queue']}%3Bpoison")
    return [Scene(VIEWER, path) for path in (*paths, *more, "/users")]


def _problems(world: World) -> list[Scene]:
    return [Scene(STRANGER, "/nope"), Scene(ADMIN, "/nope"), Scene(STRANGER, "/login/code")]


def _answers(world: World) -> list[Scene]:
    """What cannot be got by an address alone."""
    names = world.names
    edit, entity = f"/lists/{LIST}/edit", "/explorer/tables/departed/entity?partition=one&row=first"
    subscriber, message = f"/lists/{LIST}/subscribers/{ANN}", f"/messages/{names['pending']}/edit"
    draft = f"/messages/{names['draft']}/edit"
    looks, signup = f"/lists/{LIST}/signup-page", f"/subscribe?list={LIST}"
    brand, emails = f"/lists/{LIST}/brand", f"/lists/{LIST}/emails"
    leaving = f"/unsubscribe?id={names['guid']}&listName={LIST}"
    preferring = leaving.replace("/unsubscribe", "/preferences")
    confirming = f"/confirm?id={names['guid_not_yet']}&listName={LIST}"
    queue, stale = f"/queues/{names['queue']}", {"etag": "1"}
    login = {"email": "careful@example.org", "password": PASSWORD}
    return [
        Scene(ADMIN, "/lists/new", "/lists/new", {"name": "no name!", "description": "x"}),
        Scene(ADMIN, "/domains/details?domain=example.com", "/domains/keys/create",
              {"domain": "example.com", "algorithm": "rsa", "selector": "no selector!"}),
        Scene(ADMIN, "/settings/mail-server", "/settings/mail-server",
              {"host": "no host!", "port": "0", "user": "x"}),
        Scene(ADMIN, "/settings/mail-server", "/settings/mail-server/test",
              {"host": "127.0.0.1", "port": "9", "encryption": "tls", "to": "b@example.com",
               "from": "a@example.com"}),
        Scene(ADMIN, "/settings/bounces", "/settings/bounces",
              {"bounce_domain": "no domain!", "brevo_webhook_secret": "short"}),
        Scene(ADMIN, "/settings/alerts", "/settings/alerts", {"alert_email": "nobody"}),
        Scene(ADMIN, edit, edit, {"description": "Another <name>", **stale}),
        Scene(ADMIN, subscriber, subscriber, {"blocked": "another reason", **stale}),
        Scene(ADMIN, subscriber, f"{subscriber}/move", {"to_list": "nope"}),
        Scene(ADMIN, subscriber, f"{subscriber}/lists", {"to_list": "nope"}),
        Scene(ADMIN, subscriber, f"{subscriber}/ask", {}),
        Scene(ADMIN, f"/lists/{LIST}/subscribers/add", f"/lists/{LIST}/subscribers/add",
              {"email": "nobody"}),
        Scene(ADMIN, f"/lists/{LIST}/subscribers", f"/lists/{LIST}/bulk",
              {"action": "remove", "email": ANN}),
        Scene(ADMIN, "/messages/new", "/messages/new",
              {"list": LIST, "subject": "x", "text": "x", "when": "later", "day": ""}),
        Scene(ADMIN, draft, draft, {"subject": "Mine", "body": "<p>mine</p>", **stale}),
        Scene(ADMIN, message, message, {"when": "later", "day": "2020-01-01", "clock": "09:00"}),
        Scene(ADMIN, message, message, {"subject": "Mine", "body": "<p>mine</p>", **stale}),
        Scene(ADMIN, message, "/messages/test", {"list": LIST, "subject": "x", "test_to": "x"}),
        Scene(ADMIN, looks, looks, {"welcome_text": "Mine", **stale}),
        Scene(ADMIN, looks, looks, {"signup_text": "\u202e"}),
        Scene(ADMIN, brand, brand, {"colour": "no colour"}),
        Scene(ADMIN, emails, emails, {"subject": "Mine", "text": "[Yes]({{ confirm_ur }})"}),
        Scene(ADMIN, emails, emails, {"subject": "x", "text": "[Yes]({{ confirm_url }})", **stale}),
        Scene(ADMIN, brand, brand, {"website": "https://mine.example", **stale}),
        Scene(ADMIN, entity, entity, {"value0": "mine", **stale}),
        Scene(ADMIN, entity, entity, {"kind1": "integer", "value1": "no number"}),
        Scene(ADMIN, queue, "/queue/put", {"queue": names["queue"], "body": "x", "delay": "long"}),
        Scene(ADMIN, "/keys", "/keys/create", {"name": "mine", "reach": "everything"}),
        Scene(ADMIN, "/keys", "/keys/create", {"name": "mine", "reach": "some"}),
        Scene(ADMIN, "/users", "/users/invite", {"email": "new@example.org", "role": "editor"}),
        Scene(ADMIN, "/users", "/users/invite", {"email": "nobody", "role": "editor"}),
        Scene(ADMIN, "/account", "/account/password", {"new_password": "short"}),
        Scene(ADMIN, "/account/second-factor", "/account/second-factor", {"code": "000000"}),
        Scene(CAREFUL, "/account", "/account/second-factor/codes"),
        Scene(LATE, "/users", "/users/invite", {"email": "a@example.org", "role": "viewer"}),
        Scene(LATE, "/keys", "/keys/create", {"name": "x", "sudo_password": "wrong"}),
        Scene(STRANGER, "/login", "/login", {"email": "nobody@example.org", "password": "wrong"}),
        Scene(STRANGER, "/login", "/login", login),
        Scene(STRANGER, signup, signup, {"email": "nobody"}),
        Scene(STRANGER, signup, signup, {"email": "new@example.com"}),
        Scene(STRANGER, "/subscribe", "/subscribe", {"email": "new@example.com"}),
        Scene(STRANGER, signup, signup, {"email": "new@example.com", "attributes.plan": "x"}),
        Scene(STRANGER, "/subscribe?list=shop", "/subscribe?list=shop", {"email": "a@example.com"}),
        Scene(STRANGER, preferring, preferring, {"action": "save", "attributes.plan": "x"}),
        Scene(STRANGER, preferring, preferring, {"action": "pause"}),
        Scene(STRANGER, preferring, preferring, {"action": "address", "email": "nobody"}),
        Scene(STRANGER, leaving, leaving, {"action": "cancel"}),
        Scene(STRANGER, confirming, confirming, {"action": "confirm"}),
        Scene(STRANGER, leaving, leaving, {"action": "confirm"}),
    ]  # fmt: skip
