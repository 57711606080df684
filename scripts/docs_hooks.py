"""What `make docs` adds to the pages in docs/: the reference, which is generated from the code,
and files of the repository that are pages, too. mkdocs calls the functions named `on_…`.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from docs_reference import REFERENCE
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
MERMAID = ROOT / "node_modules/mermaid/dist/mermaid.min.js"
_DIAGRAM = 'class="mermaid"'
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s#]+)(#[^()\s]*)?\)")

FIGURES = ROOT / "bench/results"

# Files of the repository that are also pages of the site: path → page.
ALSO_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    **{
        f"bench/results/{each.name}": f"figures/{each.name}"
        for each in sorted(FIGURES.iterdir())
        if each.suffix in (".md", ".svg")
    },
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add decisions and benchmarks to the navigation: there are many, so mkdocs.yml does not list
    them.

    Without a local copy of mermaid, diagrams stay text: nothing is fetched from other sites to draw
    them.
    """
    decisions = sorted(each.name for each in (ROOT / "docs/adr").glob("0*.md"))[1:]
    _section(config.nav, "Decisions").extend(f"adr/{name}" for name in decisions)
    figures = [page for page in ALSO_PAGES.values() if re.fullmatch(r"figures/.*\.md", page)]
    _section(config.nav, "Benchmarks").extend({_title(page): page} for page in figures)
    if not MERMAID.exists():
        config.mdx_configs["pymdownx.superfences"] = {}
    return config


def _title(page: str) -> str:
    name = Path(page).stem
    return {"mail": "Sending", "growth": "Growth"}.get(name, name.capitalize())


def _section(nav: Any, name: str) -> list[Any]:
    """Return the pages of a section, however deep it is."""
    waiting = list(nav)
    while waiting:
        entry = waiting.pop()
        for title, inner in entry.items() if isinstance(entry, dict) else ():
            if title == name:
                section: list[Any] = inner
                return section
            waiting += inner if isinstance(inner, list) else []
    raise LookupError(f"mkdocs.yml has no section {name} in its nav")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, make in REFERENCE.items():
        files.append(File.generated(config, path, content=make()))
    for source, path in ALSO_PAGES.items():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / source)))
    if MERMAID.exists():  # diagrams are drawn in the reader's browser, by our own copy
        files.append(File.generated(config, "mermaid.min.js", abs_src_path=str(MERMAID)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to the page that shows the file. Without such a
    page, only their text stays, which names the file."""
    shown_from = page.file.src_uri
    lies_at = {shown: source for source, shown in ALSO_PAGES.items()}.get(
        shown_from, f"docs/{shown_from}"
    )

    def replaced(link: re.Match[str]) -> str:
        image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(lies_at), target))
        shown = ALSO_PAGES.get(wanted) or _in_docs(wanted)
        if shown is None:
            return text
        relative = posixpath.relpath(shown, posixpath.dirname(shown_from) or ".")
        return f"{image}[{text}]({relative}{anchor})"

    # Every second part is code.
    parts = re.split(r"(^```.*?^```[ \t]*$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(
        part if number % 2 else _LINK.sub(replaced, part) for number, part in enumerate(parts)
    )


def _in_docs(path: str) -> str | None:
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Load the script that draws diagrams only on pages with a diagram."""
    if _DIAGRAM not in html or not MERMAID.exists():
        return html
    script = posixpath.relpath("mermaid.min.js", posixpath.dirname(page.file.dest_uri) or ".")
    return f'{html}\n<script src="{script}"></script>\n'
