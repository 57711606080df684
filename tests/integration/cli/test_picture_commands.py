"""Pictures on the command line."""

from pathlib import Path

import pytest

from tests.services.pictures import picture
from tests.services.postroom import CommandLine


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, {"POSTROOM_BASE_URL": "https://mail.contoso.com"})


def test_a_picture_is_added_shown_and_removed(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "a cat.png"
    file.write_bytes(picture())
    added = cli.json("picture", "add", str(file), "--alt", "A cat")
    assert (added["name"], added["alt"]) == ("a cat.png", "A cat")
    assert added["uploaded_by"].startswith("command line: ")
    assert cli.ok("picture", "add", str(file)).strip() == added["url"]
    assert cli.json("picture", "ls", "--search", "CAT")["items"] == [added]
    assert added["hash"] in cli.ok("picture", "ls")
    assert cli.ok("picture", "remove", added["hash"], "--yes").strip() == (
        "Picture a cat.png deleted."
    )
    assert cli.json("picture", "ls") == {"items": [], "next": None}
    file.write_bytes(b"<svg/>")
    assert "not SVG: export it as PNG" in cli.fails("picture", "add", str(file))
