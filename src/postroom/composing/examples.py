"""Templates with example content, to look at."""

from __future__ import annotations

import html
import re
from typing import Final
from urllib.parse import quote

from postroom.composing.brand import EmailBrand
from postroom.composing.builtin import BUILT_IN, PICTURE
from postroom.composing.compiler import Compiled, compile_source
from postroom.composing.layouts import Layout, slots_of
from postroom.domain.messages.messages import MessageFormat

# Hills under a pale sky.
_DRAWING: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 520"><rect width="1200" height="520"'
    ' fill="#d5e3e8"/><path d="M0 400Q300 300 600 380T1200 340V520H0Z" fill="#7aa68c"/>'
    '<path d="M0 450Q400 380 700 440T1200 420V520H0Z" fill="#3f7a5c"/></svg>'
)
_FIELD: Final = re.compile(r"\{\{ (\w+)(?: \| default: &quot;.*?&quot;)? \}\}")


def compile_example(layout: Layout, brand: EmailBrand, name: str = "") -> Compiled:
    """Return a template with example content: its own, if it comes with Postroom."""
    built_in = BUILT_IN.get(name)
    slots = dict(built_in.example_slots) if built_in else _example_slots(layout)
    front = "".join(f"{slot}: {value}\n" for slot, value in slots.items())
    content = (built_in or BUILT_IN["letter"]).example
    return compile_source(f"---\n{front}---\n{content}", MessageFormat.MARKDOWN, brand, layout)


def example_html(layout: Layout, brand: EmailBrand, name: str = "") -> str:
    """Return the HTML of the example as a recipient sees it. It loads nothing."""
    values = {
        "email": "subscriber@example.com",
        "list_description": html.escape(brand.name or "Our newsletter"),
        "unsubscribe_url": "https://example.com",
        "preferences_url": "https://example.com",
    }
    document = compile_example(layout, brand, name).html.replace(
        PICTURE, f"data:image/svg+xml,{quote(_DRAWING)}"
    )
    return _FIELD.sub(lambda found: values.get(found[1], ""), document)


def _example_slots(layout: Layout) -> dict[str, str]:
    return {slot.name: slot.default or _example_of(slot.name) for slot in slots_of(layout)}


def _example_of(slot: str) -> str:
    if slot.endswith(("link", "url")):
        return "https://example.com"
    if slot.endswith(("picture", "image")):
        return PICTURE
    return slot.replace("_", " ").capitalize()
