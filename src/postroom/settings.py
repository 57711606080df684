"""Settings: one table, each with its default and its help.

`POSTROOM_*` in the environment wins over `postroom.toml`, which wins over the default. Nobody reads
the environment but `load_settings`, which is called once at the start.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from postroom.errors import PostroomError

FILE = "postroom.toml"
PREFIX = "POSTROOM_"


class SettingError(PostroomError):
    """A setting that cannot be understood; the text names it and where it came from."""


class Setting(msgspec.Struct, frozen=True):
    """One setting. `parse` turns its text into its value, or raises ValueError saying why not."""

    name: str
    default: str
    help: str
    parse: Callable[[str], Any] = str
    secret: bool = False

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
    def shown(self) -> str:
        """For people: secrets are masked, passwords inside URLs too."""
        if self.setting.secret:
            return "●●●●●●" if self.text else "(not set)"
        return re.sub(r"(://[^/@\s:]*):[^/@\s]*@", r"\1:●●●@", self.text)


def parse_duration(text: str) -> timedelta:
    """`500ms`, `30s`, `20m`, `2h`, `5d`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text.strip())
    if found is None:
        raise ValueError("is written like 500ms, 30s, 20m, 2h or 5d")
    unit = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[found[2]]
    return timedelta(seconds=float(found[1]) * unit)


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"is one of {', '.join(words)}")
        return text

    return parse


def _whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.strip().isdigit() or not least <= int(text) <= most:
            raise ValueError(f"is a whole number from {least} to {most}")
        return int(text)

    return parse


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
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", text):
        raise ValueError("begins with http:// or https:// and has no query")
    return text.rstrip("/")


SETTINGS = (
    Setting("data", "./postroom-data", "The folder for everything that is kept locally.", Path),
    Setting(
        "store",
        "",
        "The URL of the store: sqlite:///…, postgresql://… or azure://…"
        " Without it: an SQLite file in the data folder.",
    ),
    Setting(
        "transport",
        "outbox:",
        "The way out: smtp://…, smtps://…, sendgrid:// or outbox: (mails are kept, not sent).",
    ),
    Setting(
        "base_url",
        "http://localhost:8420",
        "Where subscribers reach the public pages; links in mails begin with it.",
        _base_url,
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
        "sender_lease",
        "60s",
        "How long a sender that died on another machine keeps its pages (5s to 1h).",
        _seconds(5, 3600),
    ),
    Setting("sendgrid_api_key", "", "The key for sendgrid://.", secret=True),
    Setting(
        "azure_connection_string", "", "The account's connection string for azure://.", secret=True
    ),
)  # fmt: skip


class Settings(msgspec.Struct, frozen=True):
    """All settings, found and understood."""

    found: dict[str, FoundSetting]

    def text(self, name: str) -> str:
        return self.found[name].text

    def value(self, name: str) -> Any:
        return self.found[name].value

    @property
    def data(self) -> Path:
        path: Path = self.value("data")
        return path

    @property
    def store_url(self) -> str:
        return self.text("store") or f"sqlite:///{self.data}/postroom.db"


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
            shown = "" if setting.secret else f" {text!r}"
            raise SettingError(f"{origin}: {setting.name}{shown} {exc}") from exc
        found[setting.name] = FoundSetting(setting, text, value, origin)
    return Settings(found)


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
