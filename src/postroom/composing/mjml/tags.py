"""The tags of MJML, and which may contain which. https://documentation.mjml.io"""

from __future__ import annotations

from typing import Final

_CONTENT: Final = frozenset(
    {"mj-accordion", "mj-button", "mj-carousel", "mj-divider", "mj-hero", "mj-image", "mj-navbar"}
    | {"mj-raw", "mj-social", "mj-spacer", "mj-table", "mj-text"}
)

CHILDREN: Final = {
    "": frozenset({"mjml"}),
    "mjml": frozenset({"mj-head", "mj-body"}),
    "mj-head": frozenset(
        {"mj-attributes", "mj-breakpoint", "mj-font", "mj-preview", "mj-style", "mj-title"}
    ),
    "mj-body": frozenset({"mj-hero", "mj-raw", "mj-section", "mj-wrapper"}),
    "mj-wrapper": frozenset({"mj-hero", "mj-raw", "mj-section"}),
    "mj-section": frozenset({"mj-column", "mj-group", "mj-raw"}),
    "mj-group": frozenset({"mj-column", "mj-raw"}),
    "mj-column": _CONTENT - {"mj-hero"},
    "mj-hero": _CONTENT - {"mj-hero"},
    "mj-social": frozenset({"mj-social-element"}),
    "mj-navbar": frozenset({"mj-navbar-link"}),
    "mj-accordion": frozenset({"mj-accordion-element"}),
    "mj-accordion-element": frozenset({"mj-accordion-title", "mj-accordion-text"}),
    "mj-carousel": frozenset({"mj-carousel-image"}),
}
"""Which tags may be directly inside which."""

HTML_CONTENT: Final = frozenset(
    {"mj-accordion-text", "mj-accordion-title", "mj-button", "mj-navbar-link", "mj-raw"}
    | {"mj-social-element", "mj-table", "mj-text"}
)
"""Tags whose content is HTML."""

TEXT_CONTENT: Final = frozenset({"mj-preview", "mj-title"})

EMPTY: Final = frozenset(
    {"mj-breakpoint", "mj-carousel-image", "mj-divider", "mj-font", "mj-image", "mj-spacer"}
)

STYLE: Final = "mj-style"
ATTRIBUTES: Final = "mj-attributes"
"""Its children are named after the tags for which they set defaults."""

KNOWN: Final = frozenset().union(*CHILDREN.values()) | HTML_CONTENT | TEXT_CONTENT | EMPTY | {STYLE}
DEFAULTS_FOR: Final = KNOWN | {"mj-all", "mj-class"}
