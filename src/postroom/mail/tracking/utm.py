"""UTM parameters: what web analytics read in a link to know which message brought a visitor.

They are the same for all recipients, so they say nothing about anyone.
"""

from __future__ import annotations

import html as html_
import re
from datetime import datetime
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from postroom.mail.tracking.link_tracking import website_links

_PREFIX: Final = "utm_"
_MEDIUM: Final = "email"
_LONGEST_NAME: Final = 60
_MERGED: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")
_NOT_IN_NAME: Final = re.compile(r"[\W_]+")


def utm_parameters(source: str, subject: str, day: datetime) -> str:
    """Return the parameters of a message's links; "" without a source. The campaign is the day and
    the subject."""
    if not source:
        return ""
    words = _NOT_IN_NAME.sub("-", _MERGED.sub(" ", subject).casefold())
    campaign = f"{day:%Y-%m-%d}-{words[:_LONGEST_NAME]}".replace("--", "-").strip("-")
    values = {"source": source, "medium": _MEDIUM, "campaign": campaign}
    return urlencode({_PREFIX + name: value for name, value in values.items()})


def with_utm(document: str, base_url: str, parameters: str) -> str:
    """Return the body with these parameters in its links to other websites, except in those that
    have some already."""
    own = urlsplit(base_url).hostname
    pieces: list[str] = []
    done = 0
    for each in website_links(document, base_url):
        parts = urlsplit(each.target)
        names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        if parts.hostname == own or any(name.startswith(_PREFIX) for name in names):
            continue
        query = f"{parts.query}&{parameters}" if parts.query else parameters
        link = parts._replace(query=query).geturl()
        pieces += [document[done : each.start], html_.escape(link)]
        done = each.end
    return "".join([*pieces, document[done:]])
