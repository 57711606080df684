"""On which page each stored setting is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postroom.web.admin.configuration import alert_setup, bounce_setup, mail_server

PAGES: Final[Mapping[str, tuple[str, str]]] = {
    name: (path, label)
    for path, label, names in (
        (mail_server.HERE, "Mail server", mail_server.SETTINGS),
        (bounce_setup.HERE, "Bounces", bounce_setup.SETTINGS),
        (alert_setup.HERE, "Alerts", alert_setup.SETTINGS),
    )
    for name in names
}
"""By setting: the path and the name of its page."""
