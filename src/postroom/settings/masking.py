"""URLs as people may see them: without user names and passwords, however they were written.

A mistyped URL is shown in an error as well, so nothing relies on it being well-formed. The user
name goes too: many providers use a token as the user name.
"""

from __future__ import annotations

import re

MASK = "●●●"

_BETWEEN_URLS = re.compile(r",\s*(?=[A-Za-z][A-Za-z0-9+.-]*:/)")
# Scheme with any number of slashes, everything up to the last @ of the text, and the rest. Without
# a scheme, everything before the @ is taken for credentials.
_CREDENTIALS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/+)?(.*)@(.*)", re.DOTALL)
# A host is missing or the @ was forgotten: what follows the colon is no port.
_NO_PORT = re.compile(
    r"(?!sqlite:|outbox:)([A-Za-z][A-Za-z0-9+.-]*:/+)([^/\[\]:@?]+:(?!\d*(?:[/?,]|$)).*)"
)
_PLAIN = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://[^@]*@[^@,/]*(?:[/?][^@]*)?|[^@:]*://[\w.\[\]:-]*[^@]*"
)
_SECRET_PARAMETER = re.compile(r"(?i)([?&][^=&]*(?:pass|secret|key|token)[^=&]*=)[^&,]*")


def masked(text: str) -> str:
    """Return the URL, or the URLs separated by commas, without credentials."""
    urls = _BETWEEN_URLS.split(text)
    # A comma in a password looks like the end of a URL: then all of it counts as one.
    is_clear = all(_PLAIN.fullmatch(each) for each in urls)
    return ",".join(map(_masked, urls if is_clear else [text]))


def _masked(url: str) -> str:
    if found := _CREDENTIALS.fullmatch(url):
        url = f"{found[1] or ''}{MASK}@{found[3]}"
    elif found := _NO_PORT.fullmatch(url):
        url = f"{found[1]}{MASK}"
    return _SECRET_PARAMETER.sub(rf"\1{MASK}", url)
