"""HTML as the standard wants it, checked by html-validate."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.browser.support.looking import NODE_MODULES
from tests.services.missing import require

# What the recommended rules forbid and is meant here: boxes that are ticked share a name; a label
# around its field names it, too, for programs that follow `for` alone; tables that scroll have a
# role, because they need a name, and an outline needs no section for each table. Users' words make
# long titles, and templates leave spaces at the ends of lines.
_CONFIG = Path(__file__).with_name("html-validate.json")


def invalid_html(pages: Mapping[str, str], folder: Path) -> list[str]:
    """What is wrong with these pages, each with its name."""
    program = NODE_MODULES / ".bin/html-validate"
    if not program.exists():
        require("html-validate", "npm ci")
    names = {}
    for number, (name, html) in enumerate(pages.items()):
        file = folder / f"{number:03}.html"
        file.write_text(html)
        names[str(file)] = name
    found = folder / "html-validate.json"
    done = subprocess.run(
        [program, "--config", _CONFIG, "--formatter", f"json={found}", *names],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.exists(), done.stderr
    return [
        f"{names[report['filePath']]}: html: line {each['line']}: {each['message']}"
        f" ({each['ruleId']})"
        for report in json.loads(found.read_text())
        for each in report["messages"]
    ]
