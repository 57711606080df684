"""How long the editor waits for a draft to be saved, over HTTP."""

from __future__ import annotations

import statistics
import time

import httpx2

from bench.figures import Figure
from tests.web.forms import forms_in
from tests.web.world import LIST

SAVES = 200
SIZE = 100_000  # bytes
SAVE_P95 = 20.0  # milliseconds
_NEW = "/messages/new"
_SAVE = "/messages/save"


def figures(client: httpx2.Client) -> list[Figure]:
    """Save one draft again and again, each time with another text, as the editor does."""
    fields = _empty_form(client)
    times = []
    for number in range(SAVES):
        paragraph = f"<p>Change {number}: what members did in their gardens this week.</p>\n"
        html = paragraph * (SIZE // len(paragraph))
        change = fields | {"list": LIST, "subject": "News", "html": html, "body": html}
        parts = {name: (None, value.encode()) for name, value in change.items()}
        begin = time.perf_counter()
        response = client.post(_SAVE, files=parts, headers={"HX-Request": "true"})
        times.append((time.perf_counter() - begin) * 1000)
        assert response.status_code == 200, response.text[:500]
        fields |= response.json()
    times.sort()
    return [
        Figure("saving a draft of 100 KB", times[int(0.95 * SAVES)], "ms",
               statistics.median(times), "median",
               SAVE_P95, target_on="value", target_is="at most")
    ]  # fmt: skip


def _empty_form(client: httpx2.Client) -> dict[str, str]:
    """Return what the editor sends for a message that nobody has typed yet."""
    page = client.get(_NEW).text
    [form] = [each for each in forms_in(page, _NEW) if "etag" in each.names][:1]
    return dict(form.fields) | {"format": "html"}
