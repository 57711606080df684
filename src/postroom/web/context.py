"""The context that all pages and API calls share."""

from __future__ import annotations

import asyncio

from postroom.encryption import load_secret_key
from postroom.settings import Settings
from postroom.web.background import Background, ImportRuns, Redrives
from postroom.web.requests.cookies import cookies_at
from postroom.web.requests.login_limits import LoginLimits
from postroom.wiring import Services, find_outbox, make_preflight, make_renderer


class WebContext:
    """The services and settings of a running web server.

    `secret` signs cookies and form tokens. `keeps_mail`: emails are kept in the outbox instead of
    being sent. `stopping` is set when the server shuts down: endless responses end then.
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
        self.renderer = make_renderer(services, settings)
        self.preflight = make_preflight(services, settings, self.renderer)

    @property
    def base_url(self) -> str:
        url: str = self.settings.web.base_url
        return url

    @property
    def is_behind_tls(self) -> bool:
        """Whether visitors use HTTPS."""
        return self.base_url.startswith("https://")


def make_context(services: Services, settings: Settings) -> WebContext:
    secret = load_secret_key(settings.secrets.key, settings.storage.data)
    return WebContext(services, settings, secret)
