"""The frame of the emails that Postroom writes itself: a card in the list's brand.

Tables and inline styles, because email programs ignore much of CSS. What `<style>` adds is
optional: narrow screens, and dark mode where the program supports it.
"""

from __future__ import annotations

import html
import re
from typing import Final

from postroom.domain.audience.lists.appearance import Colour, accent_on
from postroom.domain.audience.lists.brand import FONTS, Brand, initial_of

# The colours of the public pages (css/tokens.css), light and dark.
_LIGHT: Final = {"page": "#f6f4ef", "card": "#ffffff", "ink": "#24221e", "soft": "#5c574d",
                 "line": "#e6e2d9"}  # fmt: skip
_DARK: Final = {"page": "#161513", "card": "#232220", "ink": "#edeae4", "soft": "#b4aea2",
                "line": "#34322e"}  # fmt: skip
_DEFAULT_COLOUR: Final = Colour("#27509b")

_FRAME: Final = """\
<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<meta name="format-detection" content="telephone=no, date=no, address=no, email=no, url=no">
<meta name="x-apple-disable-message-reformatting" content="">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
@media (max-width: 480px) {{
  .card {{ padding: 28px 20px !important; }}
  .outer {{ padding: 16px 8px !important; }}
  .button {{ width: 100% !important; }}
  .button a {{ display: block !important; text-align: center !important; }}
}}
@media (prefers-color-scheme: dark) {{
  .page {{ background: {dark_page} !important; }}
  .card {{ background: {dark_card} !important; border-color: {dark_line} !important; }}
  .ink {{ color: {dark_ink} !important; }}
  .soft {{ color: {dark_soft} !important; }}
  .link {{ color: {dark_link} !important; }}
  .line {{ border-color: {dark_line} !important; }}
  .button {{ border-color: {dark_edge} !important; }}
}}
</style>
</head>
<body class="page" style="margin:0;padding:0;background:{page};-webkit-text-size-adjust:100%">
<div style="display:none;max-height:0;overflow:hidden;mso-hide:all">{preheader}</div>
<table role="presentation" class="page" width="100%" cellpadding="0" cellspacing="0" border="0" \
style="background:{page};font-family:{font}">
<tr><td class="outer" align="center" style="padding:40px 16px">
<table role="presentation" width="560" cellpadding="0" cellspacing="0" border="0" \
style="width:100%;max-width:560px">
<tr><td class="ink" style="padding:0 8px 20px;color:{ink};font:600 17px/24px {font}">\
{mark}{name}</td></tr>
<tr><td class="card" style="padding:40px;background:{card};border:1px solid {line};\
border-radius:12px">
{content}
</td></tr>
{footer}</table>
</td></tr>
</table>
</body>
</html>
"""
_INITIAL: Final = """\
<span style="display:inline-block;width:32px;height:32px;margin-right:12px;border-radius:8px;\
background:{fill};color:{on_fill};font:600 17px/32px {font};text-align:center" \
aria-hidden="true">{initial}</span>"""
# Outlook knows the height only; the list's name follows, so the picture needs no text.
_LOGO: Final = """\
<img src="{url}" alt="" height="48" style="width:auto;height:auto;max-width:240px;max-height:48px;\
margin-right:12px;border:0;vertical-align:middle">"""
_HEADING: Final = """\
<h1 class="ink" style="margin:0 0 16px;color:{ink};font:700 24px/32px {font}">{text}</h1>"""
_PARAGRAPH: Final = """\
<p class="ink" style="margin:0 0 16px;color:{ink};font:400 17px/26px {font}">{text}</p>"""
_SMALL: Final = """\
<p class="soft" style="margin:16px 0 0;color:{soft};font:400 14px/21px {font}">{text}</p>"""
_RULE: Final = """\
<div class="line" style="margin:24px 0 0;border-top:1px solid {line};font-size:0">&nbsp;</div>"""
_BUTTON: Final = """\
<table role="presentation" class="button" cellpadding="0" cellspacing="0" border="0" \
style="margin:8px 0 0;border:1px solid {edge};border-radius:8px;background:{button};\
border-collapse:separate"><tr><td style="border-radius:8px;background:{button}">\
<a href="{link}" style="display:inline-block;padding:13px 28px;color:{on_button};\
font:600 17px/22px {font};text-decoration:none;border-radius:8px">{text}</a></td></tr></table>"""
_LINK: Final = """\
<a class="link" href="{link}" style="color:{text_colour};{breaking}">{text}</a>"""
_FOOTER: Final = """\
<tr><td class="soft" align="center" style="padding:24px 8px 0;color:{soft};\
font:400 13px/20px {font};text-align:center">
{lines}
</td></tr>
"""


_STYLES: Final = {
    "h1": ("ink", "margin:0 0 16px;color:{ink};font:700 24px/32px {font}"),
    "h2": ("ink", "margin:24px 0 12px;color:{ink};font:700 20px/28px {font}"),
    "h3": ("ink", "margin:20px 0 8px;color:{ink};font:700 17px/26px {font}"),
    "p": ("ink", "margin:0 0 16px;color:{ink};font:400 17px/26px {font}"),
    "ul": ("ink", "margin:0 0 16px;padding:0 0 0 24px;color:{ink};font:400 17px/26px {font}"),
    "ol": ("ink", "margin:0 0 16px;padding:0 0 0 24px;color:{ink};font:400 17px/26px {font}"),
    "blockquote": ("line", "margin:0 0 16px;padding:0 0 0 16px;border-left:3px solid {line}"),
}
_BARE_TAG: Final = re.compile(rf"<({'|'.join(_STYLES)})>")
_ONLY_A_LINK: Final = re.compile(r'<p><a href="([^"<>]*)">([^<>]*)</a></p>')


class BrandedFrame:
    """Writes the parts of an email in one brand. All texts are HTML, escaped by the caller."""

    def __init__(self, brand: Brand) -> None:
        colour = brand.colour or _DEFAULT_COLOUR
        # On the surfaces on which the colour is hardest to read.
        light = accent_on(Colour(_LIGHT["page"]), colour)
        dark = accent_on(Colour(_DARK["card"]), colour)
        button = accent_on(Colour(_LIGHT["page"]), brand.button_colour or colour)
        button_on_dark = accent_on(Colour(_DARK["card"]), brand.button_colour or colour)
        self._brand = brand
        self._style = {
            **_LIGHT,
            **{f"dark_{name}": value for name, value in _DARK.items()},
            "font": FONTS[brand.font],
            "fill": light.fill,
            "on_fill": light.on_fill,
            "button": button.fill,
            "on_button": button.on_fill,
            "edge": button.line,
            "dark_edge": button_on_dark.line,
            "text_colour": light.text,
            "dark_link": dark.text,
        }

    def heading(self, text: str) -> str:
        return _HEADING.format(text=text, **self._style)

    def paragraph(self, text: str) -> str:
        return _PARAGRAPH.format(text=text, **self._style)

    def small(self, text: str) -> str:
        return _SMALL.format(text=text, **self._style)

    def rule(self) -> str:
        return _RULE.format(**self._style)

    def button(self, text: str, link: str) -> str:
        return _BUTTON.format(text=text, link=link, **self._style)

    def styled(self, content: str) -> str:
        """Return simple HTML, as Markdown makes it, in this brand. A paragraph that is only a link
        becomes a button."""
        content = _ONLY_A_LINK.sub(lambda found: self.button(found[2], found[1]), content)
        return _BARE_TAG.sub(lambda found: self._opened(found[1]), content)

    def _opened(self, tag: str) -> str:
        name, style = _STYLES[tag]
        return f'<{tag} class="{name}" style="{style.format(**self._style)}">'

    def address(self, link: str) -> str:
        """Return a link that shows its address, which may break anywhere."""
        return _LINK.format(text=link, link=link, breaking="word-break:break-all", **self._style)

    def link(self, text: str, link: str) -> str:
        """Return a link that stays on one line."""
        return _LINK.format(text=text, link=link, breaking="white-space:nowrap", **self._style)

    def whole(
        self,
        *,
        language: str,
        name: str,
        title: str,
        preheader: str,
        content: list[str],
        logo: str = "",
    ) -> str:
        """Return the document. `name` is the list's, as plain text, and `logo` a URL."""
        return _FRAME.format(
            language=language,
            title=title,
            preheader=preheader,
            name=html.escape(name),
            mark=self._mark(name, logo),
            content="\n".join(content),
            footer=self._footer(language),
            **self._style,
        )

    def _mark(self, name: str, logo: str) -> str:
        if logo:
            return _LOGO.format(url=html.escape(logo))
        return _INITIAL.format(initial=html.escape(initial_of(name)), **self._style)

    def _footer(self, language: str) -> str:
        links = [
            self.link(html.escape(each.text), html.escape(each.url)) for each in self._brand.links
        ]
        texts = [self._brand.footer_in(language), self._brand.postal_address]
        lines = [
            " &nbsp; ".join(links),
            *(html.escape(each).replace("\n", "<br>\n") for each in texts),
        ]
        shown = "<br><br>\n".join(each for each in lines if each)
        return _FOOTER.format(lines=shown, **self._style) if shown else ""


def text_footer(brand: Brand, language: str) -> str:
    """Return the end of the text part: "" if the brand has nothing to say."""
    parts = [
        "\n".join(each.url for each in brand.links),
        brand.footer_in(language),
        brand.postal_address,
    ]
    shown = "\n\n".join(each for each in parts if each)
    return f"\n--------\n{shown}\n" if shown else ""
