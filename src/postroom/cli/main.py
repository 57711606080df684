"""The command `postroom`: its subcommands, and the one place where errors become exit statuses."""

import sys

import click

from postroom import __version__
from postroom.cli.up import up
from postroom.errors import PostroomError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="postroom")
def postroom() -> None:
    """Run your own mailing lists.

    Postroom keeps lists of subscribers, and sends each message to every verified subscriber,
    once. It starts on one file and grows to many machines by changing one URL.
    """


postroom.add_command(up)


def main() -> None:
    """Run the command line: exit status 0, 1 (it failed, one line says why) or 2 (wrong use).

    click itself handles wrong use. An error that is not ours is a fault in the code and keeps its
    traceback.
    """
    try:
        postroom(prog_name="postroom")
    except PostroomError as error:
        click.echo(f"postroom: {error}", err=True)
        sys.exit(1)
