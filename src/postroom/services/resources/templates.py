"""Templates as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from postroom.composing.layouts import LayoutFormat
from postroom.services.messages.drafts.templates import Template, WholeTemplate
from postroom.services.resources import Resource, Time, describe_time


class SlotResource(Resource, frozen=True):
    """A place in a template that a message fills, in addition to its content."""

    name: str
    required: bool
    default: str


class TemplateSummary(Resource, frozen=True, kw_only=True):
    """A template without its source."""

    name: str
    title: str
    description: str
    format: LayoutFormat
    built_in: Annotated[bool, Meta(description="Comes with Postroom, and cannot be changed.")]
    edited_at: Time | None
    edited_by: str | None
    etag: str


class TemplateResource(TemplateSummary, frozen=True, kw_only=True):
    """A template."""

    source: str
    slots: Sequence[SlotResource]


def describe_template_summary(template: Template) -> TemplateSummary:
    return TemplateSummary(
        name=template.name,
        title=template.title,
        description=template.description,
        format=template.format,
        built_in=template.is_built_in,
        edited_at=describe_time(template.edited_at),
        edited_by=template.edited_by or None,
        etag=template.etag,
    )


def describe_template(whole: WholeTemplate) -> TemplateResource:
    return TemplateResource(
        **msgspec.structs.asdict(describe_template_summary(whole.template)),
        source=whole.layout.source,
        slots=[SlotResource(slot.name, slot.is_required, slot.default) for slot in whole.slots],
    )
