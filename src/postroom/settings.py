"""Settings: one table, each with its default and its help.

`POSTROOM_*` in the environment wins over `postroom.toml`, which wins over the default. Nobody reads
the environment but `load_settings`, which is called once at the start.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from postroom.domain.audience.addresses import parse_address
from postroom.domain.disk_space import parse_space_mark
from postroom.domain.durations import parse_duration
from postroom.domain.errors import Invalid
from postroom.errors import PostroomError
from postroom.url_masking import masked

FILE = "postroom.toml"
PREFIX = "POSTROOM_"
_SQLITE = "sqlite:///"


class SettingError(PostroomError):
    """A setting that cannot be understood; the text names it and where it came from.

    `option` is the option of the command line that said it, if one did.
    """

    def __init__(self, text: str, option: str = "") -> None:
        super().__init__(text)
        self.option = option


class Setting(msgspec.Struct, frozen=True):
    """One setting. `parse` turns its text into its value, or raises ValueError saying why not."""

    name: str
    default: str
    help: str
    parse: Callable[[str], Any] = str
    secret: bool = False
    is_url: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


class FoundSetting(msgspec.Struct, frozen=True):
    """A setting's value and where it came from."""

    setting: Setting
    text: str
    value: Any
    origin: str

    @property
    def has_secret(self) -> bool:
        """Whether the text holds something that is masked when it is shown."""
        return bool(self.text) and self.text != self.shown

    @property
    def shown(self) -> str:
        """For people: secrets are masked, user names and passwords inside URLs too."""
        if self.setting.secret:
            return "●●●●●●" if self.text else "(not set)"
        return masked(self.text) if self.setting.is_url else self.text


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"is one of {', '.join(words)}")
        return text

    return parse


def _url_of(*beginnings: str) -> Callable[[str], str]:
    """What follows the beginning is understood by whoever is behind it."""

    def parse(text: str) -> str:
        if text.strip() and not text.strip().startswith(beginnings):
            raise ValueError(f"begins with one of {', '.join(beginnings)}")
        return text

    return parse


def _whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.strip().isdigit() or not least <= int(text) <= most:
            raise ValueError(f"is a whole number from {least} to {most}")
        return int(text)

    return parse


def _whole_number_or_none(least: int, most: int) -> Callable[[str], int | None]:
    parse = _whole_number(least, most)
    return lambda text: parse(text) if text.strip() else None


def _seconds(least: float, most: float) -> Callable[[str], timedelta]:
    def parse(text: str) -> timedelta:
        duration = parse_duration(text)
        if not least <= duration.total_seconds() <= most:
            raise ValueError(f"is between {least:g} and {most:g} seconds")
        return duration

    return parse


def _rate(text: str) -> float | None:
    """Emails per second; None: without a limit."""
    if not text.strip() or re.fullmatch(r"\s*0+(\.0*)?\s*", text):
        return None
    return _positive_rate(text)


def _positive_rate(text: str) -> float:
    found = re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*", text, re.ASCII)
    if found is None or not 0.01 <= float(found[1]) <= 100_000:
        raise ValueError("is a number of emails per second from 0.01 to 100000")
    return float(found[1])


def _rates_by_domain(text: str) -> dict[str, float]:
    """`gmail.com=20,*=5`: emails per second, by domain; `*` is each of the others."""
    rates: dict[str, float] = {}
    for pair in text.split(",") if text.strip() else ():
        domain, separator, rate = pair.partition("=")
        domain = domain.strip().lower()
        if not separator or not re.fullmatch(r"\*|[^\s@.*]+(\.[^\s@.*]+)+", domain):
            raise ValueError("is written like gmail.com=20,outlook.com=10,*=5")
        if domain in rates:
            raise ValueError(f"names {domain} twice")
        try:
            rates[domain] = _positive_rate(rate)
        except ValueError as exc:
            raise ValueError(f"is wrong about {domain}: {rate.strip()!r} {exc}") from exc
    return rates


def _base_url(text: str) -> str:
    if text and not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", text):
        raise ValueError("begins with http:// or https:// and has no query")
    return text.rstrip("/")


def _address(text: str) -> str:
    try:
        return parse_address(text) if text else ""
    except Invalid as exc:
        raise ValueError(exc.problem) from exc


def _url(text: str) -> str:
    if text and not re.fullmatch(r"https?://[^\s/?#]+\S*", text):
        raise ValueError("begins with http:// or https://")
    return text


def _duration_or_none(text: str) -> timedelta | None:
    return parse_duration(text) if text.strip() else None


def _label(text: str) -> str:
    if text and not re.fullmatch(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*", text):
        raise ValueError("is a name such as s1 or mail.2026")
    return text


def _dns_server(text: str) -> tuple[str, int] | None:
    """Address and port; None: as this machine is set up."""
    if not text:
        return None
    found = re.fullmatch(r"([0-9.]+|\[[0-9a-fA-F:]+\]|[0-9a-fA-F:]{3,}?)(?::(\d{1,5}))?", text)
    try:
        address = str(ipaddress.ip_address(found[1].strip("[]"))) if found else ""
    except ValueError:
        address = ""
    if found is None or not address:
        raise ValueError("is an address such as 10.0.0.53 or 127.0.0.1:5353")
    return address, int(found[2] or 53)


def _networks(text: str) -> str:
    """Addresses and networks, or `*` for everybody; as uvicorn reads them."""
    for each in filter(None, map(str.strip, text.split(","))):
        try:
            if each != "*":
                ipaddress.ip_network(each)
        except ValueError as exc:
            raise ValueError(
                f"has {each!r}: say addresses or networks such as 10.0.0.1,10.1.0.0/16"
            ) from exc
    return text


def _secret_key(text: str) -> str:
    if text and len(text) < 32:
        raise ValueError("has at least 32 characters")
    return text


def _secret_keys(text: str) -> tuple[str, ...]:
    return tuple(_secret_key(each.strip()) for each in text.split(",") if each.strip())


def _hsts(text: str) -> str:
    try:
        return {"auto": "auto", "yes": "yes", "true": "yes", "no": "no", "false": "no"}[
            text.strip().lower()
        ]
    except KeyError as exc:
        raise ValueError("must be auto, yes or no") from exc


SETTINGS = (
    Setting("data", "./postroom-data", "The folder for everything that is kept locally.", Path),
    Setting(
        "store",
        "",
        "The URL of the store: sqlite:///…, postgresql://… or azure://…"
        " Without it: an SQLite file in the data folder.",
        _url_of("sqlite://", "postgresql://", "azure://"),
        is_url=True,
    ),
    Setting(
        "transport",
        "outbox:",
        "The way out: smtp://…, smtps://…, sendgrid:// or outbox: (mails are kept, not sent).",
        _url_of("smtp://", "smtps://", "sendgrid:", "outbox:"),
        is_url=True,
    ),
    Setting(
        "base_url",
        "",
        "Where subscribers reach the public pages; links in mails begin with it."
        " Without it: http://localhost with the port.",
        _base_url,
        is_url=True,
    ),
    Setting("port", "8420", "The port of the web pages and the API.", _whole_number(0, 65535)),
    Setting(
        "bind",
        "127.0.0.1",
        "The address that the web server listens on; 0.0.0.0 for all of this machine's.",
    ),
    Setting(
        "secret_key",
        "",
        "Signs cookies and links, and encrypts secrets in the store; at least 32 characters."
        " Without it one is made in the data folder: several web servers need the same, so then it"
        " must be set.",
        _secret_key,
        secret=True,
    ),
    Setting(
        "old_secret_keys",
        "",
        "Former secret keys, separated by commas: they decrypt what is not yet encrypted under the"
        " current one (`postroom store rekey`).",
        _secret_keys,
        secret=True,
    ),
    Setting(
        "trusted_proxies",
        "",
        "Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed,"
        " such as 10.0.0.1,10.1.0.0/16.",
        _networks,
    ),
    Setting(
        "hsts",
        "auto",
        "Whether browsers are told to use https only, for a year (Strict-Transport-Security):"
        " auto (with an https base_url), yes (subdomains too) or no.",
        _hsts,
    ),
    Setting(
        "web_connections",
        "1000",
        "Connections to the web server at the same time; at most half of the files that the process"
        " may open.",
        _whole_number(10, 100_000),
    ),
    Setting(
        "web_connections_per_client",
        "100",
        "The same for one client (an IPv4 address or an IPv6 /64); trusted proxies are exempt.",
        _whole_number(1, 100_000),
    ),
    Setting(
        "api_rate",
        "1000",
        "Calls of the API per second and key, on the average of a minute.",
        _whole_number(1, 1_000_000),
    ),
    Setting(
        "in_doubt",
        "resend",
        "What happens to emails that a crash left in doubt: resend (and mark) or hold.",
        _one_of("resend", "hold"),
    ),
    Setting(
        "connections", "16", "Connections to a mail server, of each sender.", _whole_number(1, 1000)
    ),
    Setting(
        "connections_in_all",
        "",
        "Connections to a mail server, of all senders together; nothing: no common limit.",
        _whole_number_or_none(1, 100_000),
    ),
    Setting(
        "rate",
        "",
        "Emails per second, of all senders together; 0 or nothing: no limit.",
        _rate,
    ),
    Setting(
        "rate_per_domain",
        "",
        "Emails per second to a recipient domain, of all senders together:"
        " gmail.com=20,outlook.com=10,*=5 (* is each of the others).",
        _rates_by_domain,
    ),
    Setting("retry_first", "5m", "The first pause before a deferred email is tried again; it"
            " doubles each time.", parse_duration),
    Setting("retry_longest", "4h", "The longest such pause.", parse_duration),
    Setting("retry_for", "5d", "How long a deferred email is tried before it is given up.",
            parse_duration),
    Setting(
        "scheduler_lease",
        "15s",
        "How long a scheduler that died keeps the others waiting (1s to 60s).",
        _seconds(1, 60),
    ),
    Setting(
        "min_free_space",
        "200MB,5%",
        "No new message starts while less disk space is free for the data folder or the SQLite"
        " file: a size, a percentage of the disk, or both (the smaller counts); 0: no limit.",
        parse_space_mark,
    ),
    Setting(
        "stalled_after",
        "60s",
        "A sender or scheduler that has work and makes no progress for so long is restarted"
        " (2s to 1h).",
        _seconds(2, 3600),
    ),
    Setting(
        "sender_lease",
        "60s",
        "How long a sender that died on another machine keeps its pages (5s to 1h).",
        _seconds(5, 3600),
    ),
    Setting(
        "host_lease",
        "15s",
        "How long a host that was killed keeps the messages it had in hand (1s to 1h).",
        _seconds(1, 3600),
    ),
    Setting(
        "breaker_pause",
        "30s",
        "How long an application whose processes crash again and again is left alone"
        " (100ms to 1h).",
        _seconds(0.1, 3600),
    ),
    Setting(
        "host_refresh",
        "10s",
        "How often a host looks at everything anew, although it is told of changes (1s to 1h).",
        _seconds(1, 3600),
    ),
    Setting(
        "sender_idle",
        "1m",
        "How long a sender that the host has started waits for more before it stops (100ms to 1h).",
        _seconds(0.1, 3600),
    ),
    Setting(
        "alert_email",
        "",
        "Who is told by mail when a message pauses itself, a queue faults or a breaker opens.",
        _address,
    ),
    Setting(
        "alert_from",
        "",
        "The From address of such mails, and of test mails. Without it: that of the first list.",
        _address,
    ),
    Setting(
        "alert_webhook",
        "",
        "A URL that the same is POSTed to, as JSON.",
        _url,
        secret=True,  # such addresses often carry a key
    ),
    Setting(
        "keep_archive",
        "",
        "How long records of messages that are done are kept, such as 730d; nothing: for ever.",
        _duration_or_none,
    ),
    Setting(
        "keep_events",
        "90d",
        "How long events are kept, and the history of queue messages that are gone; nothing: for"
        " ever.",
        _duration_or_none,
    ),
    Setting(
        "log_format",
        "console",
        "How the log is written: console (for people) or json (for programs).",
        _one_of("console", "json"),
    ),
    Setting(
        "traces_endpoint",
        "",
        "Where OpenTelemetry traces are sent (OTLP over HTTP), such as http://localhost:4318;"
        " needs the extra `tracing`.",
        _url,
        is_url=True,
    ),
    Setting(
        "dkim_selector",
        "",
        "The selector of the key that your mail server signs with; `postroom check` looks it up.",
        _label,
    ),
    Setting(
        "dns_server",
        "",
        "The DNS server that `postroom check` asks, such as 10.0.0.53 or 127.0.0.1:5353."
        " Without it: this machine's.",
        _dns_server,
    ),
    Setting("sendgrid_api_key", "", "The key for sendgrid://.", secret=True),
    Setting(
        "azure_connection_string", "", "The account's connection string for azure://.", secret=True
    ),
)  # fmt: skip


class Settings(msgspec.Struct, frozen=True):
    """All settings, found and understood; `unknown` variables look like settings and are none."""

    found: dict[str, FoundSetting]
    unknown: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        return self.found[name].text

    def value(self, name: str) -> Any:
        return self.found[name].value

    def shown(self, name: str) -> str:
        """What counts, for people: without a URL the store is a file in the data folder."""
        is_implied = name == "store" and not self.text(name)
        return self.store_url if is_implied else self.found[name].shown

    @property
    def data(self) -> Path:
        path: Path = self.value("data")
        return path

    @property
    def store_url(self) -> str:
        return self.text("store") or f"{_SQLITE}{self.data}/postroom.db"

    @property
    def store_file(self) -> Path | None:
        """The file of an SQLite store; None for the other engines."""
        url = self.store_url
        return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None

    @property
    def growing_folders(self) -> list[Path]:
        """The folders on this machine that fill up while emails are sent: journals and outbox in
        the data folder, and the store if it is a file."""
        file = self.store_file
        return [self.data] if file is None else list(dict.fromkeys([self.data, file.parent]))


def load_settings(
    environment: Mapping[str, str], folder: Path, options: Mapping[str, str | None] | None = None
) -> Settings:
    """Command-line options over environment over `postroom.toml` in `folder` over defaults."""
    file = _read_file(folder / FILE)
    given = options or {}
    found: dict[str, FoundSetting] = {}
    for setting in SETTINGS:
        text, origin = setting.default, "default"
        if setting.name in file:
            text, origin = file[setting.name], FILE
        if environment.get(setting.variable):
            text, origin = environment[setting.variable], setting.variable
        option = given.get(setting.name)
        if option is not None:
            text, origin = option, f"--{setting.name.replace('_', '-')}"
        try:
            value = setting.parse(text)
        except ValueError as exc:
            shown = FoundSetting(setting, text, None, origin).shown
            told = "" if setting.secret else f" {shown!r}"
            raise SettingError(
                f"{origin}: {setting.name}{told} {exc}", origin if option is not None else ""
            ) from exc
        found[setting.name] = FoundSetting(setting, text, value, origin)
    if not found["base_url"].text:
        found["base_url"] = _on_this_machine(found["base_url"], found["port"])
    return Settings(found, _unknown(environment))


def _unknown(environment: Mapping[str, str]) -> tuple[str, ...]:
    known = {setting.variable for setting in SETTINGS}
    return tuple(sorted(n for n in environment if n.startswith(PREFIX) and n not in known))


def _on_this_machine(base_url: FoundSetting, port: FoundSetting) -> FoundSetting:
    url = f"http://localhost:{port.value}"
    return msgspec.structs.replace(base_url, text=url, value=url)


def _read_file(path: Path) -> dict[str, str]:
    """The plain settings of the file as text; tables such as [[apps]] are not ours."""
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as exc:
        raise SettingError(f"{path}: {exc}") from exc
    known = {setting.name for setting in SETTINGS}
    plain: dict[str, str] = {}
    for name, value in content.items():
        if isinstance(value, dict | list):
            continue
        if name not in known:
            raise SettingError(
                f"{path}: there is no setting {name!r} (known: {', '.join(sorted(known))})"
            )
        plain[name] = str(value)
    return plain
