"""The look of the documentation: the product's style sheets and icons, and a search that works
without a web server. mkdocs calls the functions named `on_…`; the templates are in `docs_theme`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import jinja2
import mkdocs
from markupsafe import Markup
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

STATIC = Path(__file__).parent.parent / "src/postroom/web/static"
LUNR = Path(mkdocs.__file__).parent / "contrib/search/templates/search/lunr.js"
_SYMBOL = re.compile(r'<symbol id="([^"]+)"([^>]*)>(.*?)</symbol>')
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_CODE = re.compile(r'<div class="highlight">(<pre>.*?</pre>)</div>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    shared = [*(STATIC / f"css/{name}.css" for name in ("tokens", "base", "components"))]
    for file in (*shared, STATIC / "icon.svg", LUNR):
        files.append(File.generated(config, f"assets/{file.name}", abs_src_path=str(file)))
    return files


def on_env(env: jinja2.Environment, config: MkDocsConfig, files: Files) -> jinja2.Environment:
    env.globals["icon"] = icon
    return env


def icon(name: str, kind: str = "icon") -> Markup:
    """Return an icon as a part of the page: browsers do not load icons from other files on disk."""
    attributes, inner = _symbols()[name]
    svg = f'<svg class="{kind}"{attributes} aria-hidden="true">{inner}</svg>'
    return Markup(svg)  # noqa: S704 - a file of ours


@cache
def _symbols() -> dict[str, tuple[str, str]]:
    found = _SYMBOL.findall((STATIC / "icons.svg").read_text())
    return {name: (attributes, inner) for name, attributes, inner in found}


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let wide tables scroll by themselves, and give code a place for its button."""
    box = '<div class="table" tabindex="0" role="group" aria-label="Table">'
    html = _TABLE.sub(lambda found: f"{box}{found[0]}</div>", html)
    html = html.replace("<th></th>", "<td></td>")  # an empty header is none
    html = _CODE.sub(r'<div class="highlight code-box">\1</div>', html)
    return html.replace("<pre><", '<pre tabindex="0"><')


def on_post_build(config: MkDocsConfig) -> None:
    """Turn the search index into a script: pages opened from disk cannot fetch anything."""
    site = Path(config.site_dir)
    written = site / "search/search_index.json"
    sections = json.loads(written.read_text())["docs"]
    titles = {each["location"]: each["title"] for each in sections if "#" not in each["location"]}
    for each in sections:
        each["page"] = titles[each["location"].partition("#")[0]]
        each["text"] = " ".join(each["text"].split())
    script = f"window.postroomSections = {json.dumps(sections, ensure_ascii=False)};\n"
    (site / "assets/search-index.js").write_text(script)
    written.unlink()
    written.parent.rmdir()
