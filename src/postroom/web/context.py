"""What every page and every call works with."""

from __future__ import annotations

import asyncio

from postroom.settings import Settings
from postroom.web.background.import_runs import ImportRuns
from postroom.web.background.redrives import Redrives
from postroom.web.background.tasks import Background
from postroom.web.requests.cookies import cookies_at
from postroom.web.requests.try_limits import LoginLimits
from postroom.wiring import Services, find_outbox


class WebContext:
    """The use cases and the settings of one running web server.

    `secret` signs what visitors carry for us (cookies, tokens in forms); it never leaves the
    server. `keeps_mail`: mails are shown in the outbox, and go nowhere. `stopping` is set when the
    server is asked to stop: answers that go on and on end then.
    """

    def __init__(self, services: Services, settings: Settings, secret: bytes) -> None:
        self.services = services
        self.settings = settings
        self.secret = secret
        self.keeps_mail = find_outbox(settings) is not None
        self.cookies = cookies_at(self.base_url)
        self.stopping = asyncio.Event()
        self.background = Background()
        self.import_runs = ImportRuns(services.imports, self.background)
        self.redrives = Redrives(services.queues, self.background)
        self.login_limits = LoginLimits()

    @property
    def base_url(self) -> str:
        url: str = self.settings.web.base_url
        return url

    @property
    def is_behind_tls(self) -> bool:
        """Whether visitors come by https."""
        return self.base_url.startswith("https://")
