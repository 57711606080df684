"""Templates: a gallery, and pages to view, create, edit and delete one."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import Response

from postroom.composing.brand import EmailBrand
from postroom.composing.examples import example_html
from postroom.composing.layouts import LayoutFormat
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import Exists, Invalid, Overtaken
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.templates import TemplateContent
from postroom.web.rendering.sandbox import sandboxed
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_NO_SCROLL_BARS: Final = "<style>html { scrollbar-width: none; }</style>"
_FORMATS: Final = {"mjml": "MJML", "html": "HTML"}
_SOURCE_HELP: Final = (
    "The message goes where {% slot content %} is. Other slots look like {% slot title %}, values"
    " of the list’s brand like {% brand colour %}. {% footer %} has the unsubscribe link and the"
    " postal address."
)
_FIRST: Final = """\
<mjml lang="{% brand language %}">
  <mj-body css-class="page" background-color="#f1f0ec">
    <mj-wrapper css-class="card" background-color="#ffffff" padding="32px 0 16px">
      <mj-section>
        <mj-column>
          <mj-text css-class="text"><h1>{% slot title %}</h1></mj-text>
        </mj-column>
      </mj-section>
      {% slot content %}
    </mj-wrapper>
    {% footer %}
  </mj-body>
</mjml>
"""
_LARGEST_FORM: Final = 3 * 1024 * 1024


async def gallery(visit: Visit) -> Response:
    found = await visit.services.templates.list()
    return visit.render(
        "admin/messages/templates.html",
        own=[each for each in found if not each.is_built_in],
        built_in=[each for each in found if each.is_built_in],
    )


async def details(visit: Visit) -> Response:
    found = await visit.services.templates.get(visit.parameter("name"))
    return visit.render(
        "admin/messages/template.html",
        item=found.template,
        slots=found.slots,
        source=found.layout.source,
    )


async def preview(visit: Visit) -> Response:
    """Show a template with example content and the brand of the first list, in a frame. A small
    one, which nobody scrolls, has no scroll bars."""
    found = await visit.services.templates.get(visit.parameter("name"))
    brand = EmailBrand(name="Our newsletter")
    if names := await visit.lists.names(limit=1):
        brand = await visit.services.composing.brand(names[0])
    document = await asyncio.to_thread(
        example_html, found.layout, brand, found.template.name if found.template.is_built_in else ""
    )
    if visit.parameter("small"):
        document = document.replace("</head>", f"{_NO_SCROLL_BARS}</head>", 1)
    return sandboxed(document, base_url=visit.context.base_url)


async def create(visit: Visit) -> Response:
    """Show the form for a new template, perhaps with a copy of another one, or create it."""
    if visit.request.method == "POST":
        return await _save_new(visit)
    content = TemplateContent("", _FIRST)
    if copied := visit.parameter("from"):
        found = await visit.services.templates.get(copied)
        content = TemplateContent(
            f"Copy of {found.template.title}",
            found.layout.source,
            found.template.description,
            found.template.format,
        )
    return _form(visit, "", content)


async def _save_new(visit: Visit) -> Response:
    name, content = (await visit.text("name")).strip(), await _content(visit)
    try:
        made = await visit.services.templates.create(name, content, visit.who.email)
    except Invalid as exc:
        return _form(visit, name, content, {exc.field: exc.problem})
    except Exists:
        return _form(visit, name, content, {"name": "is taken: choose another one"})
    await visit.audit("created template", made.name)
    return visit.redirect(f"/templates/{made.name}", f"Template {made.title} created.")


async def edit(visit: Visit) -> Response:
    found = await visit.services.templates.get(visit.parameter("name"))
    template = found.template
    if visit.request.method != "POST":
        content = TemplateContent(
            template.title, found.layout.source, template.description, template.format
        )
        return _form(visit, template.name, content, etag=template.etag)
    content, etag = await _content(visit), await visit.text("etag")
    try:
        saved = await visit.services.templates.replace(
            template.name, content, visit.who.email, etag=etag or None
        )
    except Invalid as exc:
        return _form(visit, template.name, content, {exc.field: exc.problem}, etag=etag)
    except Overtaken:
        problem = (
            f"was changed by {template.edited_by or 'someone else'} in the meantime: your text is"
            " below. Save again to replace theirs"
        )
        return _form(visit, template.name, content, {"source": problem}, etag=template.etag)
    await visit.audit("edited template", saved.name)
    return visit.redirect(f"/templates/{saved.name}", f"Template {saved.title} saved.")


async def delete(visit: Visit) -> Response:
    """Ask for confirmation, then delete the template."""
    found = await visit.services.templates.get(visit.parameter("name"))
    if visit.request.method != "POST":
        return visit.render("admin/messages/template_delete.html", item=found.template)
    await visit.services.templates.delete(found.template.name)
    await visit.audit("deleted template", found.template.name)
    return visit.redirect("/templates", f"Template {found.template.title} deleted.")


async def _content(visit: Visit) -> TemplateContent:
    is_html = await visit.text("format") == "html"
    return TemplateContent(
        await visit.text("title"),
        (await visit.text("source")).replace("\r\n", "\n"),
        await visit.text("description"),
        LayoutFormat.HTML if is_html else LayoutFormat.MJML,
    )


def _form(
    visit: Visit,
    name: str,
    content: TemplateContent,
    problems: dict[str, str] | None = None,
    *,
    etag: str = "",
) -> Response:
    return visit.render(
        "admin/messages/template_form.html",
        status=422 if problems else 200,
        name=name,
        content=content,
        formats=_FORMATS,
        source_help=_SOURCE_HELP,
        problems=problems or {},
        etag=etag,
    )


_WRITES: Final = ("GET", "POST")
VIEWS = (
    View("/templates", gallery, right=ListRight.VIEW),
    View("/templates/new", create, role=Role.EDITOR, methods=_WRITES, max_body=_LARGEST_FORM),
    View("/templates/{name}", details, right=ListRight.VIEW),
    View("/templates/{name}/preview", preview, right=ListRight.VIEW),
    View("/templates/{name}/edit", edit, role=Role.EDITOR, methods=_WRITES, max_body=_LARGEST_FORM),
    View("/templates/{name}/delete", delete, role=Role.EDITOR, methods=_WRITES),
)
