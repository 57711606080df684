"""Every setting, declared once: name, type, default, help and constraint.

Settings are attributes of groups: `settings.web.port`, `settings.sender.lease`. A test keeps the
documentation in step with them.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import get_type_hints

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.disk_space import SpaceMark, parse_space_mark
from postroom.domain.units import parse_duration
from postroom.settings import parsing
from postroom.settings.bounce_settings import BounceSettings
from postroom.settings.canary_settings import CanarySettings
from postroom.settings.declaring import FoundSetting, Setting, SettingGroup, declared_in, setting
from postroom.transport import registry

_SQLITE = "sqlite:///"


class StorageSettings(SettingGroup, frozen=True):
    """Where data is kept, and how long."""

    data: Path = setting("data", "./postroom-data", "The folder for local data.", Path)
    url: str = setting(
        "store",
        "",
        "The URL of the store: sqlite:///…, postgresql://… or azure://…"
        " Default: an SQLite file in the data folder.",
        parsing.url_of("sqlite://", "postgresql://", "azure://"),
        is_url=True,
    )
    azure_connection_string: str = setting(
        "azure_connection_string",
        "",
        "The account's connection string for azure://.",
        str,
        secret=True,
    )
    min_free_space: SpaceMark = setting(
        "min_free_space",
        "200MB,5%",
        "No new message starts while less disk space is free for the data folder or the SQLite"
        " file: a size, a percentage of the disk, or both (the smaller counts); 0: no limit.",
        parse_space_mark,
    )
    keep_archive: timedelta | None = setting(
        "keep_archive",
        "",
        "How long records of finished messages are kept, such as 730d; empty: forever.",
        parsing.optional(parse_duration),
    )
    keep_events: timedelta | None = setting(
        "keep_events",
        "90d",
        "How long events and the history of deleted queue messages are kept; empty: forever.",
        parsing.optional(parse_duration),
    )

    @property
    def file(self) -> Path | None:
        """Return the file of an SQLite store; None for other engines."""
        return Path(self.url.removeprefix(_SQLITE)) if self.url.startswith(_SQLITE) else None

    @property
    def growing_folders(self) -> list[Path]:
        """Return the folders that grow while emails are sent: journals and outbox in
        the data folder, and the store if it is a file."""
        file = self.file
        return [self.data] if file is None else list(dict.fromkeys([self.data, file.parent]))


class SecretSettings(SettingGroup, frozen=True):
    """Keys that sign and encrypt."""

    key: str = setting(
        "secret_key",
        "",
        "Signs cookies and links, and encrypts secrets in the store; at least 32 characters."
        " Default: one created in the data folder. Several web servers need the same key, so they"
        " need this setting.",
        parsing.secret_key,
        secret=True,
    )
    old_keys: tuple[str, ...] = setting(
        "old_secret_keys",
        "",
        "Former secret keys, separated by commas: they decrypt what is not yet encrypted under the"
        " current one (`postroom store rekey`).",
        parsing.secret_keys,
        secret=True,
    )


class WebSettings(SettingGroup, frozen=True):
    """The web server: pages and API."""

    base_url: str = setting(
        "base_url",
        "",
        "Where subscribers reach the public pages; links in emails start with it."
        " Default: http://localhost with the port.",
        parsing.base_url,
        is_url=True,
    )
    port: int = setting(
        "port",
        "8420",
        "The port of the web pages and the API; 0: any free port.",
        parsing.whole_number(1, 65535, also=0),
    )
    bind: str = setting(
        "bind",
        "127.0.0.1",
        "The address that the web server listens on; 0.0.0.0 for all addresses of the machine.",
        str,
    )
    trusted_proxies: parsing.TrustedProxies = setting(
        "trusted_proxies",
        "",
        "Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted,"
        " such as 10.0.0.1,10.1.0.0/16.",
        parsing.TrustedProxies,
    )
    hsts: str = setting(
        "hsts",
        "auto",
        "Whether browsers are told to use only https for a year (Strict-Transport-Security):"
        " auto (with an https base_url), yes (including subdomains) or no.",
        parsing.hsts,
    )
    connections: int = setting(
        "web_connections",
        "1000",
        "Connections to the web server at the same time; at most half of the files that the process"
        " may open.",
        parsing.whole_number(10, 100_000),
    )
    connections_per_client: int = setting(
        "web_connections_per_client",
        "100",
        "The same for one client (an IPv4 address or an IPv6 /64); trusted proxies are exempt.",
        parsing.whole_number(1, 100_000),
    )
    api_rate: int = setting(
        "api_rate",
        "1000",
        "API calls per second for each key, averaged over a minute.",
        parsing.whole_number(1, 1_000_000),
    )


class TransportSettings(SettingGroup, frozen=True):
    """The mail server or email provider."""

    url: str = setting(
        "transport",
        "outbox:",
        "Where emails are sent: smtp://…, smtps://…, sendgrid:// or outbox: (kept, not sent).",
        parsing.url_of(*registry.PREFIXES),
        is_url=True,
        storable=True,
        check=registry.check_url,
    )
    connections: int = setting(
        "connections",
        "16",
        "Connections of each sender to a mail server.",
        parsing.whole_number(1, 256),
    )
    connections_in_all: int | None = setting(
        "connections_in_all",
        "36",
        "Connections of all senders together, for providers that limit them per account, such as"
        " Microsoft 365 (3). When a fault begins, each may affect one recipient; empty: no common"
        " limit.",
        parsing.optional(parsing.whole_number(1, 100_000)),
        storable=True,
    )
    sendgrid_api_key: str = setting(
        "sendgrid_api_key", "", "The key for sendgrid://.", str, secret=True
    )
    dkim_selector: str = setting(
        "dkim_selector",
        "",
        "The selector of the key that your mail server signs with; `postroom check` looks it up.",
        parsing.dns_label,
    )
    sending_addresses: tuple[str, ...] = setting(
        "sending_addresses",
        "",
        "The IP addresses that your mail server sends from, such as 192.0.2.1,2001:db8::1: checks"
        " of sending domains then say whether SPF allows them and whether they have names (PTR).",
        parsing.ip_addresses,
    )
    online_checks: str = setting(
        "online_checks",
        "yes",
        "Whether a message's links and its sender's DNS records are checked first, and providers"
        " are recognised by DNS: yes or no.",
        parsing.one_of("yes", "no"),
    )


class SendingSettings(SettingGroup, frozen=True):
    """How senders send: rates, retries, emails in doubt."""

    in_doubt: str = setting(
        "in_doubt",
        "resend",
        "What happens to emails that a crash left in doubt: resend (and mark) or hold.",
        parsing.one_of("resend", "hold"),
    )
    rate: float | None = setting(
        "rate",
        "",
        "Emails per second, for all senders together; 0 or empty: no limit.",
        parsing.rate,
    )
    rate_per_domain: dict[str, float] = setting(
        "rate_per_domain",
        "",
        "Emails per second to a recipient domain, for all senders together:"
        " gmail.com=20,outlook.com=10,*=5 (* stands for all other domains).",
        parsing.rates_by_domain,
    )
    adaptive_rates: str = setting(
        "adaptive_rates",
        "yes",
        "Whether senders adapt to what each provider accepts: fewer emails per second after it has"
        " throttled us, more after clean minutes; yes or no.",
        parsing.one_of("yes", "no"),
    )
    hold_complaints: float | None = setting(
        "hold_complaints",
        "0.3",
        "Emails to a provider are held back for a day if at least this percentage of a message was"
        " marked as spam there; 0: never.",
        parsing.percentage,
    )
    hold_rejections: float | None = setting(
        "hold_rejections",
        "1",
        "Emails to a provider are held back for an hour if more than this percentage of a message"
        " bounced there because of our reputation or the content; 0: never.",
        parsing.percentage,
    )
    hold_bounces: float | None = setting(
        "hold_bounces",
        "10",
        "The rest of a message is held back for a day if at least this percentage of it bounced,"
        " and at least 20 emails; 0: never.",
        parsing.percentage,
    )
    retry_first: timedelta = setting(
        "retry_first",
        "5m",
        "The delay before a deferred email is retried; it doubles each time.",
        parse_duration,
    )
    retry_longest: timedelta = setting(
        "retry_longest", "4h", "The longest such delay.", parse_duration
    )
    retry_for: timedelta = setting(
        "retry_for",
        "5d",
        "How long a deferred email is retried before it counts as refused.",
        parse_duration,
    )
    lease: timedelta = setting(
        "sender_lease",
        "60s",
        "How long a sender that died on another machine keeps its pages (5s to 1h).",
        parsing.duration("5s", "1h"),
    )
    idle: timedelta = setting(
        "sender_idle",
        "1m",
        "How long a sender started by the host waits for more work before it stops (100ms to 1h).",
        parsing.duration("100ms", "1h"),
    )


class ProcessSettings(SettingGroup, frozen=True):
    """Processes that crash or stall."""

    scheduler_lease: timedelta = setting(
        "scheduler_lease",
        "15s",
        "How long a scheduler that died keeps the others waiting (1s to 60s).",
        parsing.duration("1s", "60s"),
    )
    host_lease: timedelta = setting(
        "host_lease",
        "15s",
        "How long a host that was killed keeps the messages it was processing (1s to 1h).",
        parsing.duration("1s", "1h"),
    )
    stalled_after: timedelta = setting(
        "stalled_after",
        "60s",
        "A sender or scheduler that has work but makes no progress for this long is restarted"
        " (2s to 1h).",
        parsing.duration("2s", "1h"),
    )


class AlertSettings(SettingGroup, frozen=True):
    """Who is notified of problems."""

    email: Address | None = setting(
        "alert_email",
        "",
        "Gets an email for every event that is a warning or an error.",
        parsing.optional(parsing.email_address),
        storable=True,
    )
    from_address: Address | None = setting(
        "alert_from",
        "",
        "The From address of alerts and test emails. Default: that of the first list.",
        parsing.optional(parsing.email_address),
        storable=True,
    )
    webhook: str = setting(
        "alert_webhook",
        "",
        "A URL that alerts are POSTed to, as JSON.",
        parsing.web_url,
        secret=True,  # such addresses often carry a key
        storable=True,
    )
    digest: Address | None = setting(
        "digest_email",
        "",
        "Gets an email each Monday with the results of the week before.",
        parsing.optional(parsing.email_address),
        storable=True,
    )


class ObservabilitySettings(SettingGroup, frozen=True):
    """Logs and traces."""

    log_format: str = setting(
        "log_format",
        "console",
        "The format of the log: console (for people) or json (for programs).",
        parsing.one_of("console", "json"),
    )
    traces_endpoint: str = setting(
        "traces_endpoint",
        "",
        "Where OpenTelemetry traces are sent (OTLP over HTTP), such as http://localhost:4318;"
        " needs the extra `tracing`.",
        parsing.web_url,
        is_url=True,
    )


class Settings(msgspec.Struct, frozen=True):
    """All settings. `found` tells by name what each was set to and where; `unknown` are variables
    that look like settings but are not."""

    storage: StorageSettings
    secrets: SecretSettings
    web: WebSettings
    transport: TransportSettings
    sender: SendingSettings
    canaries: CanarySettings
    processes: ProcessSettings
    bounces: BounceSettings
    alerts: AlertSettings
    observability: ObservabilitySettings
    found: dict[str, FoundSetting]
    unknown: tuple[str, ...] = ()


GROUPS: dict[str, type[SettingGroup]] = {
    name: group
    for name, group in get_type_hints(Settings).items()
    if isinstance(group, type) and issubclass(group, SettingGroup)
}


SETTINGS: tuple[Setting, ...] = tuple(
    each for group in GROUPS.values() for each in declared_in(group).values()
)
