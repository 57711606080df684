"""The context that all pages and API calls share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from postroom.encryption import load_secret_key
from postroom.sender.message_preflight import PreflightService
from postroom.services.audience.files.runs.import_runs import ImportRuns
from postroom.services.audience.listmonk.listmonk_api import MayConnect
from postroom.services.messages.checks.link_checks import is_public
from postroom.services.messages.domains.domain_checks import DomainChecks
from postroom.settings import Settings
from postroom.web.background import Background, Redrives
from postroom.web.hit_collector import HitCollector
from postroom.web.requests.cookies import cookies_at
from postroom.web.requests.login_limits import LoginLimits
from postroom.wiring import (
    LiveSettings,
    Services,
    find_outbox,
    make_domain_checks,
    make_preflight,
    make_renderer,
)

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver


class WebContext:
    """The services and settings of a running web server.

    `live` follows changes of the settings. `secret` signs cookies and form tokens. `keeps_mail`:
    emails are kept in the outbox instead of being sent. `stopping` is set when the server shuts
    down: endless responses end then.
    """

    def __init__(
        self,
        services: Services,
        settings: Settings,
        secret: bytes,
        live: LiveSettings | None = None,
    ) -> None:
        self.services = services
        self.live = live or LiveSettings(services.stored_settings, settings)
        self.secret = secret
        self.cookies = cookies_at(self.base_url)
        self.stopping = asyncio.Event()
        self.background = Background()
        self.import_runs = ImportRuns(services.store, services.imports, self.background)
        self.redrives = Redrives(services.queues, self.background)
        self.hits = HitCollector(services.store, self.background, settings.storage.data / "hits")
        self.login_limits = LoginLimits()
        self.may_import_from: MayConnect = is_public
        """Where the pages may import subscribers from."""
        self.renderer = make_renderer(services, settings)
        self.resolver: Resolver | None = None
        """What is asked about DNS; None: the resolver of this machine."""
        self._preflight = self.settings, make_preflight(services, self.settings, self.renderer)

    @property
    def settings(self) -> Settings:
        """The settings in effect: some can be changed while the server runs."""
        return self.live.current

    @property
    def keeps_mail(self) -> bool:
        return find_outbox(self.settings) is not None

    @property
    def preflight(self) -> PreflightService:
        """The checks of messages, which depend on the mail server."""
        settings, found = self._preflight
        if settings is not self.settings:
            found = make_preflight(self.services, self.settings, self.renderer)
            self._preflight = self.settings, found
        return found

    @property
    def domain_checks(self) -> DomainChecks:
        """The checks of sending domains, which depend on the mail server and the bounce domain."""
        return make_domain_checks(self.services, self.settings, self.resolver)

    @property
    def base_url(self) -> str:
        url: str = self.settings.web.base_url
        return url

    @property
    def is_behind_tls(self) -> bool:
        """Whether visitors use HTTPS."""
        return self.base_url.startswith("https://")


def make_context(services: Services, settings: Settings, live: LiveSettings) -> WebContext:
    secret = load_secret_key(settings.secrets.key, settings.storage.data)
    return WebContext(services, settings, secret, live)
