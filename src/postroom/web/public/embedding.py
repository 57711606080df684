"""A sign-up form for a client's own site: plain HTML that posts to us, without a script or key."""

from __future__ import annotations

from html import escape

from postroom.domain.audience.lists import ListName
from postroom.web.public.subscribe import TRAP

_FORM = """\
<form method="post" action="{action}">
  <input type="hidden" name="list" value="{name}">
  <label>Email address <input type="email" name="email" required autocomplete="email"></label>
  <!-- People do not see this field; programs that fill it in are ignored. -->
  <input type="text" name="{trap}" tabindex="-1" autocomplete="off" aria-hidden="true"
         style="position: absolute; left: -9999px">
  <button type="submit">Subscribe</button>
</form>
"""


def form_snippet(base_url: str, name: ListName) -> str:
    """HTML to copy; the visitor sees our answer in the language of the browser."""
    return _FORM.format(action=escape(f"{base_url}/subscribe"), name=escape(name), trap=TRAP)
