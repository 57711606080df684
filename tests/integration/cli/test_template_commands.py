"""Templates and formats on the command line."""

from pathlib import Path

import pytest

from tests.services.postroom import CommandLine

SOURCE = "<mjml><mj-body>{% slot content %}{% footer %}</mj-body></mjml>"


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    cli = CommandLine(tmp_path)
    cli.ok("list", "create", "news", "--description", "The news", "--from", "news@contoso.com")
    return cli


def test_a_template_is_created_used_edited_and_deleted(cli: CommandLine) -> None:
    file = cli.folder / "own.mjml"
    file.write_text(SOURCE)
    assert "newsletter" in cli.ok("template", "ls")
    made = cli.json("template", "create", "own", "own.mjml", "--title", "Ours")
    assert (made["name"], made["built_in"], made["source"]) == ("own", False, SOURCE)
    assert cli.ok("template", "show", "own", "--source") == f"{SOURCE}\n"
    assert "title, issue (optional)" in cli.ok("template", "show", "newsletter")

    (cli.folder / "hello.md").write_text("# Hello\n")
    body = ("--format", "markdown", "--body", "hello.md", "--template", "own")
    message = cli.json(
        "message", "create", "news", "--subject", "Hi", *body, "--at", "2999-01-01T09:00Z"
    )
    assert (message["format"], message["template"]) == ("markdown", "own")

    assert "Template own saved." in cli.ok("template", "edit", "own", "--title", "Mine")
    file.write_text("<mjml>\n<mj-x /></mjml>")
    assert cli.fails("template", "edit", "own", "--file", "own.mjml").startswith("source: line ")
    assert cli.fails("template", "delete", "letter", "--yes").startswith(
        "the template 'letter' comes with Postroom"
    )
    assert cli.json("template", "delete", "own", "--yes") == {"template": "own"}
    assert cli.fails("template", "show", "own") == "there is no template 'own'"
