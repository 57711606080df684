"""`postroom message`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from postroom.cli.messages.ab_tests import ab_test
from postroom.cli.messages.drafts import (
    duplicate,
    follow_up,
    preflight,
    schedule,
    test,
    unschedule,
    win_back,
)
from postroom.cli.messages.emails import decide, email, emails
from postroom.cli.messages.message_life import cancel, pause, resume, retry, try_now
from postroom.cli.messages.message_results_command import people, results
from postroom.cli.messages.options import (
    AUTHOR,
    BODY_FILE,
    GivenOptions,
    attach_files,
    content_change,
    read_bodies,
    read_files,
    read_moment,
    shared_options,
    source_options,
)
from postroom.cli.messages.recipients import confirm_recipients, recipients_options
from postroom.cli.messages.watching import (
    MessageView,
    read_state,
    show_message,
    watch_message,
)
from postroom.cli.support import output
from postroom.cli.support.running import call, place_of_store, with_settings
from postroom.services.resources.messages import (
    describe_message_summary,
    describe_scheduled_message,
)

if TYPE_CHECKING:
    from postroom.domain.messages.messages import Message
    from postroom.services.messages.drafts.draft_contents import ContentChange
    from postroom.services.messages.message_rows import MessageSlice
    from postroom.services.messages.message_times import NewestMessages
    from postroom.settings import Settings
    from postroom.wiring import Services


@click.group("message")
def messages() -> None:
    """Write and schedule messages, and follow their delivery."""


for command in (
    schedule, unschedule, duplicate, follow_up, win_back, preflight, test, ab_test, pause, resume,
    cancel, retry, try_now, emails, email, decide, results, people,
):  # fmt: skip
    messages.add_command(command)


@messages.command()
@click.argument("list_name", metavar="LIST", required=False)
@click.option("--draft", is_flag=True, help="Keep it as a draft, which may be incomplete.")
@click.option("--subject", help="Required, except in a draft.")
@source_options
@click.option("--html", type=BODY_FILE, help="The HTML body, a .htm file.")
@click.option(
    "--text", type=BODY_FILE, help="The text body, a .txt file. [default: generated from the HTML]"
)
@click.option(
    "--at",
    metavar="TIME",
    callback=read_moment,
    help="When to send it, in ISO 8601. [default: now]",
)
@shared_options
@recipients_options
@output.json_option
@with_settings
def create(
    settings: Settings,
    list_name: str | None,
    draft: bool,
    subject: str | None,
    given: GivenOptions,
    body_format: str | None,
    body: str | None,
    template: str | None,
    html: str | None,
    text: str | None,
    at: datetime | None,
    yes: bool,
    require_recipients: bool,
    as_json: bool,
) -> None:
    """Schedule a message, or keep it as a draft.

    It goes to the confirmed subscribers of the list.

    With --also-list, subscribers of that list get it, too. With --segment, only those in the
    segment when sending starts get it.

    Subject and bodies may contain the merge fields {{email}}, {{list_description}} and fields of
    the list, such as {{first_name | default: "there"}}; bodies also {{unsubscribe_url}}, without
    which the link is added at the end, {{preferences_url}} and {{web_url}}. A time in the past
    means now; a time without a zone is local.

    On a terminal, it asks you to confirm the number of recipients; otherwise it prints the number
    to standard error.
    """
    from postroom.domain.messages.messages import MessageFormat, has_passed

    if body is not None and html is not None:
        raise click.UsageError("--html is short for --body with --format html: give one of them")
    if not draft and (list_name is None or subject is None):
        missing = "LIST" if list_name is None else "--subject"
        raise click.UsageError(f"{missing} is missing: give it, or --draft to add it later")
    asked_at = datetime.now(UTC)

    async def work(services: Services) -> tuple[Message, str]:
        if list_name is not None:
            await services.lists.get(list_name)  # before large files are read
        bodies = read_bodies(html, text, body)
        attachments, files = read_files(given.attach)
        change = content_change(
            bodies,
            format=None if body_format is None else MessageFormat(body_format),
            template=template,
            list_name=list_name,
            subject=subject,
            **given.fields,
            attachments=attachments or None,
            scheduled_at=at,
        )
        if draft:
            return await services.composing.create(change, AUTHOR, files=files), ""
        later = at if at and not has_passed(at, asked_at) else None
        number = await _confirm(services, change, later, yes=yes, is_required=require_recipients)
        made = await services.composing.create_scheduled(
            change, bodies, at or asked_at, files=files
        )
        return made, number

    created, number = call(settings, work)
    if number:
        output.note(number)
    passed = None if draft or at is None or not has_passed(at, asked_at) else at
    _show_created(created, passed, as_json)


async def _confirm(
    services: Services,
    change: ContentChange,
    at: datetime | None,
    *,
    yes: bool,
    is_required: bool,
) -> str:
    from postroom.services.messages.drafts.draft_contents import Content

    content = Content(**change.given)
    return await confirm_recipients(
        services, content.list_name, content.audience, at, yes=yes, is_required=is_required
    )


def _show_created(created: Message, passed: datetime | None, as_json: bool) -> None:
    """Show a new message; `passed` is its time if that is why it is sent now."""
    from postroom.domain.messages.emails import Counts
    from postroom.domain.messages.messages import MessageStatus
    from postroom.services.messages.sending.progress import SendingState

    unsent = MessageView(created, SendingState(Counts()))
    if as_json:
        has_passed = passed is not None
        output.print_json(describe_scheduled_message(*unsent, has_passed=has_passed))
        return
    is_draft = created.status is MessageStatus.DRAFT
    output.say(f"Draft {created.ref} created." if is_draft else f"Message {created.ref} scheduled.")
    if passed:
        output.say(f"{output.when(passed)} has passed: sending starts now.")
    show_message(unsent, as_json)


@messages.command()
@click.option("--done", is_flag=True, help="Show completed and cancelled messages.")
@click.option("--drafts", is_flag=True, help="Show drafts.")
@output.page_options(limit=100)
@output.json_option
@with_settings
def ls(
    settings: Settings, done: bool, drafts: bool, limit: int, after: str | None, as_json: bool
) -> None:
    """Show unfinished messages, sorted by time.

    --drafts shows drafts instead, --done finished messages, newest first.
    """
    from postroom.services.messages.message_rows import MessagePart

    if done and drafts:
        raise click.UsageError("give --done or --drafts, not both")

    async def read(services: Services) -> MessageSlice | NewestMessages:
        if done:
            return await services.times.done(limit=limit, before=after)
        part = MessagePart.DRAFTS if drafts else MessagePart.OPEN
        return await services.messages.slice(part, limit=limit, after=after)

    page = call(settings, read)
    if as_json:
        items = list(map(describe_message_summary, page.messages))
        output.print_items(items, page.next)
        return
    if not page.messages:
        kind, hint = "unfinished messages", " For drafts: --drafts. For finished ones: --done"
        if done or drafts:
            kind, hint = "drafts" if drafts else "finished messages", ""
        output.note(f"No {kind} in {place_of_store(settings)}.{hint}")
        return
    rows = [
        (
            each.ref,
            output.state(each.status.value),
            output.when(each.scheduled_at),
            each.list_name,
            output.plain(each.subject),
        )
        for each in page.messages
    ]
    headings = ("message", "status", "scheduled", "list", "subject")
    output.console().print(output.table(headings, rows))
    option = " --done" if done else " --drafts" if drafts else ""
    output.more(page.next, f"postroom message ls{option}")


@messages.command()
@click.argument("ref")
@click.option("--watch", is_flag=True, help="Follow it until it is finished.")
@output.json_option
@with_settings
def show(settings: Settings, ref: str, watch: bool, as_json: bool) -> None:
    """Show a message and the outcomes of its emails.

    Always: planned = pending + accepted + refused + suppressed + in doubt.
    """
    if watch:
        call(settings, lambda services: watch_message(services, ref, as_json))
    else:
        show_message(call(settings, lambda services: read_state(services, ref)), as_json)


@messages.command()
@click.argument("ref")
@click.option("--list", "list_name", help="The new list.")
@click.option("--subject")
@click.option("--html", type=BODY_FILE, help="The new HTML body.")
@click.option("--text", type=BODY_FILE, help="The new text body. By default it follows the HTML.")
@click.option("--at", metavar="TIME", callback=read_moment, help="The new time.")
@shared_options
@output.json_option
@with_settings
def edit(
    settings: Settings,
    ref: str,
    list_name: str | None,
    subject: str | None,
    given: GivenOptions,
    html: str | None,
    text: str | None,
    at: datetime | None,
    as_json: bool,
) -> None:
    """Change a message that has not been sent.

    It must be Draft or Pending, or Paused with nothing sent yet.

    It can be published or unpublished at any time. An empty preheader, name, Reply-To,
    additional list, segment or exclusion removes it. Attached files are added to those it has, and
    replace files of the same name.
    """
    new = (list_name, subject, html, text, at)
    if all(each is None for each in new) and not given.fields and not given.attach:
        raise click.UsageError(
            "nothing to change: give --list, --also-list, --segment, --exclude-list,"
            " --exclude-segment, --subject, --preheader, --from-name, --reply-to, --html, --text,"
            " --at, --attach, --track, --published, --canary or --local-time"
        )

    async def work(services: Services) -> MessageView:
        attachments = await attach_files(services, ref, given.attach) if given.attach else None
        change = content_change(
            read_bodies(html, text),
            list_name=list_name,
            subject=subject,
            **given.fields,
            attachments=attachments,
            scheduled_at=at,
        )
        await services.composing.change(ref, change, AUTHOR)
        return await read_state(services, ref)

    saved = call(settings, work)
    if not as_json:
        output.say(f"Message {ref} saved.")
    show_message(saved, as_json)


@messages.command()
@click.argument("ref")
@output.yes_option
@output.json_option
@with_settings
def delete(settings: Settings, ref: str, yes: bool, as_json: bool) -> None:
    """Delete a draft, or a message that is still Pending."""
    output.confirm(f"Delete message {ref}?", yes=yes)
    call(settings, lambda s: s.messages.delete(ref))
    if as_json:
        output.print_json({"ref": ref, "deleted": True})
    else:
        output.say(f"Message {ref} deleted.")
