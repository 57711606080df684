"""`postroom store`: the store as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.calling import call
from postroom.cli.support.running import run, with_settings
from postroom.errors import PostroomError

if TYPE_CHECKING:
    from postroom.settings import Settings


@click.group("store")
def stores() -> None:
    """The store as a whole: move it to another engine, encrypt its secrets again."""


class MissingKey(PostroomError):
    """Some secrets could not be decrypted."""


@stores.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@output.json_option
def copy_store(source: str, target: str, as_json: bool) -> None:
    """Copy all data from one store to another, and compare them.

    FROM and TO are URLs as in the setting `store`. Nothing may be being sent, and TO must be empty
    or hold an earlier, interrupted attempt, which goes on. FROM stays as it is.
    """
    report = run(_copy(source, target, quiet=as_json))
    if as_json:
        output.print_json(report)
        return
    output.say(
        f"Copied and compared: {report['entities']:,} entities, {report['messages']:,} queue"
        f" messages, {report['blobs']:,} blobs ({report['bytes']:,} bytes)."
    )
    output.say("Now set POSTROOM_STORE to the new one, for every part, and start them.")


@stores.command("rekey")
@output.json_option
@with_settings
def rekey(settings: Settings, as_json: bool) -> None:
    """Encrypt the secrets in the store under the current secret key.

    To replace the secret key, set `secret_key` to the new one and `old_secret_keys` to the former,
    restart every part, and run this; then the old key can go. It can be repeated.
    """
    from postroom.services.stored_secrets import SecretState

    counts = call(settings, lambda s: s.secrets.encrypt(SecretState.CLEAR, SecretState.OLD_KEY))
    if as_json:
        output.print_json({each.name.lower(): counts[each] for each in SecretState})
    else:
        done = counts.total() - counts[SecretState.UNREADABLE]
        output.say(
            f"Encrypted under the current key: {done:,} of {counts.total():,} secrets"
            f" ({counts[SecretState.OLD_KEY]:,} were under an old key,"
            f" {counts[SecretState.CLEAR]:,} in clear text)."
        )
    if unreadable := counts[SecretState.UNREADABLE]:
        raise MissingKey(
            f"{unreadable:,} of {counts.total():,} secrets cannot be decrypted: add the former key"
            " to POSTROOM_OLD_SECRET_KEYS, and run this again"
        )


async def _copy(source: str, target: str, *, quiet: bool) -> dict[str, int]:
    import msgspec

    from postroom.services.operations.store_copy import CopyReport, StoreCopy
    from postroom.storage import open_existing_store, open_store

    async with await open_existing_store(source) as old, await open_store(target) as new:
        with output.console(stderr=True).status("Copying", refresh_per_second=4) as shown:

            def told(what: str, report: CopyReport) -> None:
                shown.update(
                    f"{what}: {report.entities:,} entities, {report.messages:,} messages,"
                    f" {report.blobs:,} blobs; {report.compared:,} compared"
                )

            report = await StoreCopy(old, new, (lambda _, __: None) if quiet else told).run()
    counts: dict[str, int] = msgspec.to_builtins(report)
    return counts
