"""A look at one page: what the browser complains of, what axe finds, whether it fits a phone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.async_api import CDPSession, ConsoleMessage, Page, Request, Response

from tests.browser.support.chromium import DESKTOP, PHONE
from tests.services.missing import require

NODE_MODULES = Path(__file__).parents[3] / "node_modules"
LARGEST_PAGE = 300_000
LARGEST_CODE = 120_000  # style sheets and scripts, compressed; the editor has its own limit
LARGEST_REFERENCE = 400_000  # /api/docs describes every call on one page
LARGEST_EDITOR = 400_000  # with the code editor, whose own limit is in test_code_editor.py
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# What can differ between a light page on a desk and the same page, dark, on a phone.
_DARK_PHONE_RULES = [
    "color-contrast",
    "link-in-text-block",
    "scrollable-region-focusable",
    "target-size",
]
# Frames hold documents that are not ours, and no rule above wants the style sheets once more.
_OFF = {"iframes": False, "preload": False}
# The header of every page is the same but for where one is: each variant is examined once. The rows
# of a table and the options of a menu come from one line of a template: the first ones are enough.
_HEADER = "body > header"
_EDITOR = "form.message-form"
_SPECIMENS = "/system/components"  # shows every kind of button
_REPEATED = ["tbody tr:nth-child(n+7)", "option:nth-child(n+4)"]


def _is_code(url: str) -> bool:
    return url.partition("?")[0].endswith((".css", ".js"))


def _limit_of(url: str, *, is_editor: bool) -> int:
    if url.endswith("/api/docs"):
        return LARGEST_REFERENCE
    return LARGEST_EDITOR if is_editor else LARGEST_PAGE


def axe_source() -> str:
    file = NODE_MODULES / "axe-core/axe.min.js"
    if not file.exists():
        require("axe-core", "npm ci")
    return file.read_text()


class Looker:
    """A page of a browser in which every fault is written down."""

    def __init__(self, page: Page, cdp: CDPSession, origin: str, headers: set[str]) -> None:
        self._page = page
        self._cdp = cdp
        self._origin = origin
        self._headers = headers
        self._asked: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._loaded: set[str] = set()
        self._faults: list[str] = []

    @classmethod
    async def open(cls, page: Page, origin: str, headers: set[str]) -> Looker:
        """`headers` are those of pages that were examined before; new ones are added to it."""
        cdp = await page.context.new_cdp_session(page)
        looker = cls(page, cdp, origin, headers)
        page.on("console", looker._hear)
        page.on("pageerror", lambda error: looker._faults.append(f"script failed: {error}"))
        page.on("request", looker._watch)
        cdp.on("Network.requestWillBeSent", looker._note_request)
        cdp.on("Network.loadingFinished", looker._note_size)
        await cdp.send("Network.enable")
        await page.add_init_script(axe_source())
        return looker

    @property
    def page(self) -> Page:
        return self._page

    def begin(self) -> None:
        """From here on, what is counted and found belongs to the next page."""
        self._loaded = set()
        self._faults = []

    async def examine(self, response: Response) -> list[str]:
        """All that is wrong with the page that this answer has opened."""
        await self._page.wait_for_load_state("load")
        if response.status >= 500:
            self._faults.append(f"answered {response.status}")
        size = sum(self._sizes.get(url, 0) for url in self._loaded)
        # Whatever its address: after a mistake, or with the result of a test, it is the same page.
        is_editor = await self._page.locator(_EDITOR).count() > 0
        if size > _limit_of(response.url, is_editor=is_editor):
            self._faults.append(f"{size:,} bytes on first load")
        code = sum(self._sizes.get(url, 0) for url in self._loaded if _is_code(url))
        if code > LARGEST_CODE and not is_editor:
            self._faults.append(f"{code:,} bytes of style sheets and scripts")
        repeated = [*_REPEATED, *await self._known_header()]
        light = await self._run_axe({"type": "tag", "values": _TAGS}, repeated)
        await self._page.emulate_media(color_scheme="dark")
        await self._page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        dark = await self._run_axe({"type": "rule", "values": _DARK_PHONE_RULES}, repeated)
        self._faults += [f"axe: {each}" for each in light]
        self._faults += [f"axe, dark on a phone: {each}" for each in dark if each not in light]
        self._faults += await self._too_wide()
        self._faults += await self._more_than_one_primary(response.url)
        await self._page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
        await self._page.emulate_media(color_scheme="light")
        return list(dict.fromkeys(self._faults))

    async def _known_header(self) -> list[str]:
        """Return the selector of the page's header if it was examined before."""
        header = f"document.querySelector({json.dumps(_HEADER)})?.outerHTML ?? ''"
        html: str = await self._page.evaluate(header)
        if html in self._headers:
            return [_HEADER]
        self._headers.add(html)
        return []

    async def _run_axe(self, rules: dict[str, Any], without: list[str]) -> list[str]:
        options = json.dumps({"runOnly": rules, "resultTypes": ["violations"], **_OFF})
        where = f"{{include: document, exclude: {json.dumps(without)}}}"
        script = f"axe.run({where}, {options}).then(found => JSON.stringify(found.violations))"
        found: list[dict[str, Any]] = json.loads(await self._evaluate(script))
        return [
            f"{violation['id']}: {node['html'][:200]}: {_why(node)}"
            for violation in found
            for node in violation["nodes"]
        ]

    async def _too_wide(self) -> list[str]:
        """Somebody with a phone scrolls in one direction, and can read what is there."""
        found: list[str] = await self._page.evaluate(
            """() => {
              const wide = document.documentElement.clientWidth, found = [];
              if (document.documentElement.scrollWidth > wide) {
                found.push(`${document.documentElement.scrollWidth} px wide`);
                for (const part of document.querySelectorAll("body *")) {
                  const right = part.getBoundingClientRect().right;
                  if (right > wide && found.length < 6) found.push(part.outerHTML.slice(0, 120));
                }
              }
              for (const cell of document.querySelectorAll("td, th")) {
                if (parseFloat(getComputedStyle(cell).fontSize) < 12) {
                  found.push(`too small to read: ${cell.outerHTML.slice(0, 120)}`);
                }
              }
              return found;
            }"""
        )
        return [f"on a phone: {each}" for each in found]

    async def _more_than_one_primary(self, url: str) -> list[str]:
        """Each view has one next step; a dialog is another view, and so is a preview."""
        if url.endswith(_SPECIMENS):
            return []
        buttons = self._page.locator(
            "main .primary:visible:not(dialog *, [popover] *, .page-sample *)"
        )
        texts = [" ".join(each.split()) for each in await buttons.all_inner_texts()]
        return [f"more than one primary button: {texts}"] if len(texts) > 1 else []

    async def _evaluate(self, script: str) -> Any:
        """As the developer's tools do it: no policy of the page is in the way, none is loosened."""
        answer = await self._cdp.send(
            "Runtime.evaluate",
            {"expression": script, "awaitPromise": True, "returnByValue": True},
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{self._page.url}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    # -- what the browser tells --------------------------------------------------------------

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        # A page that says "not here" is answered with 404, and Chromium mentions that.
        if "Failed to load resource" in message.text and message.location["url"] == self._page.url:
            return
        self._faults.append(f"console: {message.text} ({message.location['url']})")

    def _watch(self, request: Request) -> None:
        url = request.url
        if not url.startswith((f"{self._origin}/", "data:", "about:", "blob:")):
            self._faults.append(f"asks elsewhere: {url}")

    def _note_request(self, event: dict[str, Any]) -> None:
        self._asked[event["requestId"]] = event["request"]["url"]

    def _note_size(self, event: dict[str, Any]) -> None:
        """What comes from the cache counts as when it was fetched: pages are seen first by one."""
        url = self._asked.pop(event["requestId"], "")
        self._sizes[url] = max(int(event["encodedDataLength"]), self._sizes.get(url, 0))
        self._loaded.add(url)


def _why(node: dict[str, Any]) -> str:
    checks = [*node["any"], *node["all"], *node["none"]]
    return "; ".join(str(check["message"]) for check in checks)
