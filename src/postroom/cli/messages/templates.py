"""`postroom template`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.messages.options import AUTHOR, BODY_FILE, read_source
from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.templates import describe_template, describe_template_summary

if TYPE_CHECKING:
    from postroom.services.messages.drafts.templates import TemplateContent, WholeTemplate
    from postroom.settings import Settings
    from postroom.wiring import Services

_FORMAT = click.Choice(["mjml", "html"])


@click.group("template")
def templates() -> None:
    """Manage the templates of messages."""


@templates.command()
@output.json_option
@with_settings
def ls(settings: Settings, as_json: bool) -> None:
    """Show all templates: your own by name, then the built-in ones."""
    found = call(settings, lambda s: s.templates.list())
    if as_json:
        output.print_items(map(describe_template_summary, found))
        return
    rows = [
        (
            each.name,
            output.plain(each.title),
            "built-in" if each.is_built_in else each.format.value,
            output.plain(each.description),
        )
        for each in found
    ]
    output.console().print(output.table(("template", "title", "kind", "description"), rows))


@templates.command()
@click.argument("name")
@click.option("--source", is_flag=True, help="Print only the source.")
@output.json_option
@with_settings
def show(settings: Settings, name: str, source: bool, as_json: bool) -> None:
    """Show a template with its slots, or its source."""
    found = call(settings, lambda s: s.templates.get(name))
    if source:
        click.echo(found.layout.source, nl=not found.layout.source.endswith("\n"))
        return
    _show(found, as_json, None)


@templates.command()
@click.argument("name")
@click.argument("file", type=BODY_FILE)
@click.option("--title", required=True, help="Shown in the gallery.")
@click.option("--description", default="", help="What it is for.")
@click.option("--format", "kind", type=_FORMAT, default="mjml", show_default=True)
@output.json_option
@with_settings
def create(
    settings: Settings, name: str, file: str, title: str, description: str, kind: str, as_json: bool
) -> None:
    """Create a template from a file of MJML or HTML.

    The file contains {% slot content %} where the message goes.
    """

    async def work(services: Services) -> WholeTemplate:
        await services.templates.create(name, _content(title, file, description, kind), AUTHOR)
        return await services.templates.get(name)

    _show(call(settings, work), as_json, f"Template {name} created.")


@templates.command()
@click.argument("name")
@click.option("--file", type=BODY_FILE, help="The new source.")
@click.option("--title", help="Shown in the gallery.")
@click.option("--description", help="What it is for.")
@output.json_option
@with_settings
def edit(
    settings: Settings,
    name: str,
    file: str | None,
    title: str | None,
    description: str | None,
    as_json: bool,
) -> None:
    """Change one of your own templates. Scheduled messages keep their design."""
    if file is None and title is None and description is None:
        raise click.UsageError("nothing to change: give --file, --title or --description")

    async def work(services: Services) -> WholeTemplate:
        from postroom.services.messages.drafts.templates import TemplateContent

        old = await services.templates.get(name)
        content = TemplateContent(
            title=old.template.title if title is None else title,
            source=old.layout.source if file is None else read_source(file),
            description=old.template.description if description is None else description,
            format=old.template.format,
        )
        await services.templates.replace(name, content, AUTHOR, etag=old.template.etag)
        return await services.templates.get(name)

    _show(call(settings, work), as_json, f"Template {name} saved.")


@templates.command()
@click.argument("name")
@output.yes_option
@output.json_option
@with_settings
def delete(settings: Settings, name: str, yes: bool, as_json: bool) -> None:
    """Delete one of your own templates."""
    output.confirm(f"Delete the template {name}?", yes=yes)
    call(settings, lambda s: s.templates.delete(name))
    if as_json:
        output.print_json({"template": name})
    else:
        output.say(f"Template {name} deleted.")


def _content(title: str, file: str, description: str, kind: str) -> TemplateContent:
    from postroom.composing.layouts import LayoutFormat
    from postroom.services.messages.drafts.templates import TemplateContent

    return TemplateContent(title, read_source(file), description, LayoutFormat(kind))


def _show(found: WholeTemplate, as_json: bool, news: str | None) -> None:
    if as_json:
        output.print_json(describe_template(found))
        return
    if news is not None:
        output.say(news)
    template = found.template
    slots = [slot.name if slot.is_required else f"{slot.name} (optional)" for slot in found.slots]
    output.console().print(
        output.details(
            {
                "template": template.name,
                "title": output.plain(template.title),
                "description": output.plain(template.description or "(none)"),
                "kind": "built-in" if template.is_built_in else template.format.value,
                "slots": ", ".join(["content", *slots]),
                "edited": output.when(template.edited_at) if template.edited_at else None,
            }
        )
    )
