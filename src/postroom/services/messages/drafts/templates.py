"""Templates: the built-in ones, and those of the organisation.

A template that an organisation creates is a row and a blob with its source. The blob is written
first and has a new name each time, so a row always points to a whole source.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from datetime import datetime
from typing import Final

import msgspec

from postroom import clock
from postroom.composing.builtin import BUILT_IN
from postroom.composing.compiler import LARGEST_SOURCE, check_layout
from postroom.composing.layouts import Layout, LayoutFormat, SlotUse, slots_of
from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.messages.pictures import media_in
from postroom.domain.plain_text import one_line
from postroom.services import entities
from postroom.services.entities import read, read_optional
from postroom.services.messages.media.picture_uses import TEMPLATE, PictureUses
from postroom.storage import AlreadyExists, Conflict, Entity, KeyRange, NotFound, Store

_KIND: Final = "template"
_PARTITION: Final = "template"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
LONGEST_TITLE: Final = 100
LONGEST_DESCRIPTION: Final = 300
MOST_TEMPLATES: Final = 500


class Template(msgspec.Struct, frozen=True):
    """A template without its source. A built-in one has no version."""

    name: str
    title: str
    description: str = ""
    format: LayoutFormat = LayoutFormat.MJML
    is_built_in: bool = False
    edited_at: datetime | None = None
    edited_by: str = ""
    version: str = ""
    etag: str = ""


class TemplateContent(msgspec.Struct, frozen=True):
    """What the author of a template writes."""

    title: str
    source: str
    description: str = ""
    format: LayoutFormat = LayoutFormat.MJML


class WholeTemplate(msgspec.Struct, frozen=True):
    """A template with its source."""

    template: Template
    layout: Layout

    @property
    def slots(self) -> list[SlotUse]:
        return slots_of(self.layout)


def parse_template_name(text: str, field: str = "name") -> str:
    """Return the name of a template. `Invalid`."""
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise Invalid(field, "must have 1 to 63 lower-case letters, digits or '-'")
    return text


class TemplateService:
    def __init__(self, store: Store, uses: PictureUses) -> None:
        self._rows = store.table(entities.TEMPLATES)
        self._sources = store.container(entities.TEMPLATES)
        self._uses = uses

    async def list(self) -> list[Template]:
        """Return all templates: the organisation's by name, then the built-in ones."""
        found = await self._rows.query(KeyRange.only(_PARTITION), limit=MOST_TEMPLATES)
        return [*map(_template_from, found.entities), *map(_built_in, BUILT_IN)]

    async def get(self, name: str) -> WholeTemplate:
        """Return a template with its source. `NoSuch`."""
        if name in BUILT_IN:
            return WholeTemplate(_built_in(name), BUILT_IN[name].layout)
        for _ in range(3):  # an edit may remove the source between the two reads
            template = await self._own(name)
            with contextlib.suppress(NotFound):
                source = await self._sources.read(_blob(template))
                return WholeTemplate(template, Layout(source.decode(), template.format))
        raise NoSuch(_KIND, name)

    async def create(self, name: str, content: TemplateContent, who: str) -> Template:
        """Create a template. `Invalid`, `Exists`."""
        if parse_template_name(name) in BUILT_IN:
            raise Exists(_KIND, name)
        new = await asyncio.to_thread(_checked, name, content, who)
        await self._uses.record(TEMPLATE, name, media_in(content.source))
        await self._sources.put(_blob(new), content.source.encode())
        try:
            etag = await self._rows.insert(_entity(new))
        except AlreadyExists as exc:
            await self._sources.delete(_blob(new))
            raise Exists(_KIND, name) from exc
        return msgspec.structs.replace(new, etag=etag)

    async def replace(
        self, name: str, content: TemplateContent, who: str, *, etag: str | None = None
    ) -> Template:
        """Replace a template. Messages that were compiled with it stay as they are. `NoSuch`,
        `Invalid`, `Overtaken`; `NotNow` for a built-in one."""
        old = await self._own(name)
        new = await asyncio.to_thread(_checked, name, content, who)
        await self._uses.record(TEMPLATE, name, media_in(content.source))
        await self._sources.put(_blob(new), content.source.encode())
        try:
            saved = await self._rows.replace(_entity(new), etag or old.etag)
        except (Conflict, NotFound) as exc:
            await self._sources.delete(_blob(new))
            raise Overtaken(_KIND, name) from exc
        await self._drop(old)
        return msgspec.structs.replace(new, etag=saved)

    async def delete(self, name: str, *, etag: str | None = None) -> None:
        """Delete a template. `NoSuch`, `Overtaken`; `NotNow` for a built-in one."""
        old = await self._own(name)
        try:
            await self._rows.delete(_PARTITION, name, etag or old.etag)
        except Conflict as exc:
            raise Overtaken(_KIND, name) from exc
        except NotFound as exc:
            raise NoSuch(_KIND, name) from exc
        await self._drop(old)

    async def _own(self, name: str) -> Template:
        if name in BUILT_IN:
            raise NotNow(f"the template {name!r} comes with Postroom: save a copy of your own")
        found = None
        if _NAME.fullmatch(name):
            found = await self._rows.get(_PARTITION, name)
        if found is None:
            raise NoSuch(_KIND, name)
        return _template_from(found)

    async def _drop(self, template: Template) -> None:
        with contextlib.suppress(NotFound):
            await self._sources.delete(_blob(template))


def _checked(name: str, content: TemplateContent, who: str) -> Template:
    if len(content.source) > LARGEST_SOURCE:
        raise Invalid(
            "source",
            f"must have at most {LARGEST_SOURCE:,} characters, not {len(content.source):,}",
        )
    findings = check_layout(Layout(content.source, content.format))
    if findings:
        raise Invalid("source", str(findings[0]))
    return Template(
        name=name,
        title=one_line("title", content.title, longest=LONGEST_TITLE),
        description=one_line(
            "description", content.description, longest=LONGEST_DESCRIPTION, required=False
        ),
        format=content.format,
        edited_at=clock.now(),
        edited_by=who,
        version=secrets.token_hex(8),
    )


def _built_in(name: str) -> Template:
    template = BUILT_IN[name]
    return Template(name, template.title, template.description, is_built_in=True, etag="built-in")


def _blob(template: Template) -> str:
    return f"{template.name},{template.version}"


def _entity(template: Template) -> Entity:
    return Entity(
        _PARTITION,
        template.name,
        {
            "Title": template.title,
            "Description": template.description,
            "Format": template.format.value,
            "EditedAt": template.edited_at or clock.now(),
            "EditedBy": template.edited_by,
            "Version": template.version,
        },
    )


def _template_from(entity: Entity) -> Template:
    return Template(
        name=entity.row,
        title=read(entity, "Title", str),
        description=read_optional(entity, "Description", str) or "",
        format=LayoutFormat(read(entity, "Format", str)),
        edited_at=read(entity, "EditedAt", datetime),
        edited_by=read_optional(entity, "EditedBy", str) or "",
        version=read(entity, "Version", str),
        etag=entity.etag,
    )
