"""What the author of a message wrote, and how it would be sent: with what list and template add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postroom.composing.brand import DEFAULT_COLOUR, EmailBrand, EmailLink
from postroom.composing.layouts import Layout
from postroom.domain.audience.lists.brand import FONTS, logo_url
from postroom.domain.audience.lists.lists import MailingList, parse_list_name
from postroom.domain.errors import Incomplete, Invalid, NoSuch, Overtaken
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.mail.personal.merge_fields import RULES, FieldRule
from postroom.services import entities
from postroom.services.concurrency import retry_on_conflict
from postroom.services.messages.drafts.draft_contents import Content, compiled, complete, content_of
from postroom.services.messages.drafts.message_edits import has_generated_text
from postroom.services.messages.drafts.templates import TemplateService
from postroom.services.messages.lifecycle import Audiences
from postroom.services.messages.message_contents import MessageBodies, NewBodies
from postroom.services.messages.message_rows import MessageRows
from postroom.storage import Conflict, NotFound, Store

_KIND: Final = "message"


class DraftCompilation:
    def __init__(
        self,
        store: Store,
        rows: MessageRows,
        bodies: MessageBodies,
        templates: TemplateService,
        audiences: Audiences,
        base_url: str,
    ) -> None:
        self._lists = store.table(entities.LISTS)
        self._rows = rows
        self._bodies = bodies
        self._templates = templates
        self._audiences = audiences
        self._base_url = base_url

    async def read(self, ref: str) -> tuple[Message, Content]:
        """Return a message with its content, which belong together: while they are read, someone
        may save another version. `NoSuch`."""

        async def read_both() -> tuple[Message, Content]:
            message = await self._rows.get(ref)
            return message, await self.content(message)

        return await retry_on_conflict(read_both, _KIND, ref)

    async def content(self, message: Message) -> Content:
        """Return what the author wrote: a text that was generated is left out. `Overtaken` if the
        message has been saved since it was read."""
        bodies = await self._bodies_of(message)
        if message.status is not MessageStatus.DRAFT and await has_generated_text(bodies):
            bodies = NewBodies(bodies.html, None, bodies.source)
        return content_of(message, bodies)

    async def _bodies_of(self, message: Message) -> NewBodies:
        try:
            return await self._bodies.read(message)
        except (NotFound, Conflict) as exc:
            raise Overtaken(_KIND, message.ref) from exc

    async def checked(self, draft: Message) -> tuple[Content, NewBodies]:
        """Return a message as it would be sent. `Incomplete`."""
        content = await self.content(draft)
        return await self.complete(content)

    async def complete(self, content: Content) -> tuple[Content, NewBodies]:
        """Return a content with its bodies as they would be sent. `Incomplete`."""
        problems: dict[str, str] = {}
        brand, layout, rules = EmailBrand(), None, RULES
        try:
            if content.list_name:
                brand = await self.brand(content.list_name)
                rules = await self._audiences.merge_fields(content.list_name, content.more_lists)
                await self._audiences.checked(content.list_name, content.audience)
        except Invalid as exc:
            problems[exc.field] = exc.problem
        except NoSuch:
            problems["list"] = f"there is no list {content.list_name!r}: choose another one"
        try:
            layout = await self.layout(content)
        except NoSuch:
            problems["template"] = f"there is no template {content.template!r}: choose another one"
        try:
            found = await complete(content, brand, layout, rules)
        except Incomplete as exc:
            raise Incomplete({**problems, **exc.problems}) from exc
        if problems:
            raise Incomplete(problems)
        return found

    async def brand(self, list_name: str) -> EmailBrand:
        """Return the brand of a list. `NoSuch`, `Invalid`."""
        found = await self._lists.get(parse_list_name(list_name), entities.LIST_ROW)
        if found is None or found.properties.get("Deleting") is True:
            raise NoSuch("list", list_name)
        return _email_brand(entities.list_from(found), self._base_url)

    async def layout(self, content: Content) -> Layout | None:
        """Return the template of a content, if it has one. `NoSuch`."""
        if not content.template:
            return None
        return (await self._templates.get(content.template)).layout

    async def compile(self, content: Content) -> NewBodies:
        """Return the bodies that a content is sent with, however incomplete it is. `Invalid`."""
        return await compiled(content, *await self.design(content))

    async def design(
        self, content: Content
    ) -> tuple[EmailBrand, Layout | None, Mapping[str, FieldRule]]:
        """Return brand, template and merge fields, however incomplete a content is. `Invalid`."""
        try:
            brand = await self.brand(content.list_name)
            rules = await self._audiences.merge_fields(content.list_name, content.more_lists)
        except (NoSuch, Invalid):
            brand, rules = EmailBrand(), RULES
        try:
            return brand, await self.layout(content), rules
        except NoSuch as exc:
            raise Invalid("template", str(exc)) from exc


def _email_brand(mailing_list: MailingList, base_url: str) -> EmailBrand:
    """Return the brand of a list for templates."""
    brand = mailing_list.brand
    return EmailBrand(
        name=mailing_list.description or mailing_list.name,
        colour=brand.colour or DEFAULT_COLOUR,
        button_colour=brand.button_colour,
        logo_url=logo_url(mailing_list.name, brand.logo, base_url),
        font=FONTS[brand.font],
        postal_address=brand.postal_address,
        links=tuple(EmailLink(link.text, link.url) for link in brand.links),
        footer_text=brand.footer_in(mailing_list.language),
        language=mailing_list.language,
    )
