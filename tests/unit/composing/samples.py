"""Sources that use everything, and what they are compiled with."""

from __future__ import annotations

import json
from typing import Final

from postroom.composing.brand import EmailBrand, EmailLink
from postroom.composing.builtin import BUILT_IN, BuiltInTemplate
from postroom.composing.compiler import Compiled, compile_source
from postroom.domain.audience.lists.appearance import Colour
from postroom.domain.messages.messages import MessageFormat

PICTURES: Final = "https://pictures.example"
BRAND: Final = EmailBrand(
    name="Contoso garden club",
    colour=Colour("#0b6e4f"),
    logo_url=f"{PICTURES}/logo.png",
    postal_address="Contoso Garden Club\n1 Main Street, Dublin",
    links=(
        EmailLink("Website", "https://contoso.example"),
        EmailLink("Mastodon", "https://social.example/@contoso"),
    ),
    footer_text="Run by volunteers since 1974.",
)

_COLUMN: Final = [
    {"type": "picture", "src": f"{PICTURES}/column.png", "alt": "A spade"},
    {"type": "heading", "text": "Tools", "level": 3},
    {"type": "text", "html": "<p>Some words in a column.</p>"},
]

EVERY_BLOCK: Final = json.dumps(
    {
        "version": 1,
        "blocks": [
            {"type": "heading", "text": "Winter & more", "level": 1},
            {
                "type": "text",
                "html": '<p>Hello {{ email | default: "you" }}, <strong>hi</strong>:</p>'
                '<ul><li>one</li><li><a href="https://example.com">two</a></li></ul>',
            },
            {"type": "picture", "src": f"{PICTURES}/a.png", "alt": "Hills", "width": 300},
            {
                "type": "button",
                "text": "Read more",
                "link": "https://example.com/?for={{ email }}",
                "align": "center",
                "colour": "#ffcc00",
            },
            {"type": "heading", "text": "In the shed"},
            {"type": "columns", "columns": [_COLUMN, _COLUMN]},
            {"type": "columns", "columns": [[{"type": "text", "html": "x"}]] * 3},
            {"type": "divider"},
            {"type": "spacer", "height": 40},
            {"type": "quote", "text": "Prune in winter.", "source": "Anna"},
            {
                "type": "posts",
                "posts": [
                    {
                        "title": "Apples",
                        "text": "No frost, no fruit.",
                        "picture": f"{PICTURES}/p.png",
                        "alt": "An apple",
                        "link": "https://example.com/apples",
                    },
                    {"title": "Compost"},
                ],
            },
            {"type": "html", "html": "<p>Raw <em>HTML</em></p>"},
            {"type": "social", "links": [{"name": "Forum", "url": "https://forum.example"}]},
            {"type": "footer", "text": "Reply to this email."},
        ],
    },
    indent=1,
)

MARKDOWN: Final = BUILT_IN["newsletter"].example


def example_of(template: BuiltInTemplate) -> Compiled:
    """Return the example of a built-in template, compiled."""
    front = "".join(f"{name}: {value}\n" for name, value in template.example_slots.items())
    source = f"---\n{front}---\n{template.example}"
    return compile_source(source, MessageFormat.MARKDOWN, BRAND, template.layout)


def every_sample() -> dict[str, Compiled]:
    """Return the samples that have golden files."""
    return {
        **{name: example_of(template) for name, template in BUILT_IN.items()},
        "blocks": compile_source(EVERY_BLOCK, MessageFormat.BLOCKS, BRAND),
        "markdown": compile_source(MARKDOWN, MessageFormat.MARKDOWN, BRAND),
    }
