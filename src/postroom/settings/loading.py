"""Where settings come from: options, environment, `postroom.toml`, the store, defaults."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from postroom.domain.errors import Invalid
from postroom.errors import PostroomError
from postroom.settings.declared import GROUPS, SETTINGS, Settings
from postroom.settings.declaring import (
    DEFAULT,
    PREFIX,
    STORED,
    FoundSetting,
    Setting,
    declared_in,
)
from postroom.settings.parsing import RefusedValue

FILE = "postroom.toml"
LONGEST_STORED = 2000
"""Characters of a stored setting: all of them together must fit into one property of a row."""


class SettingError(PostroomError):
    """A setting that cannot be used; the text names it, the requirement and where it came from.

    `option` is the command-line option that set it, if one did.
    """

    def __init__(self, text: str, option: str = "") -> None:
        super().__init__(text)
        self.option = option


def load_settings(
    environment: Mapping[str, str], folder: Path, options: Mapping[str, str | None] | None = None
) -> Settings:
    """Load each setting from the command-line options, the environment, `postroom.toml` in
    `folder` or its default, in this order. Raise `SettingError`. What is stored is added when
    the store is open (`with_stored`)."""
    file = _read_file(folder / FILE)
    found = {setting.name: _find(setting, file, environment, options or {}) for setting in SETTINGS}
    _imply(found, "store", f"sqlite:///{Path(found['data'].text)}/postroom.db")
    port = _value(found["port"])  # first: otherwise the error would be about the base URL
    _imply(found, "base_url", f"http://localhost:{port}")
    return _grouped(found, _unknown(environment))


def with_stored(settings: Settings, texts: Mapping[str, str]) -> Settings:
    """Return the settings with those that are stored, by name. Options, environment and file take
    precedence. Raise `SettingError`."""
    stored = {
        name: FoundSetting(found.setting, texts[name], STORED)
        for name, found in settings.found.items()
        if name in texts and found.setting.storable and not found.is_fixed
    }
    return _grouped({**settings.found, **stored}, settings.unknown) if stored else settings


def with_option(settings: Settings, name: str, text: str, option: str) -> Settings:
    """Return the settings with one that a command-line option of another name implies."""
    implied = FoundSetting(settings.found[name].setting, text, option)
    return _grouped({**settings.found, name: implied}, settings.unknown)


def _grouped(found: dict[str, FoundSetting], unknown: tuple[str, ...]) -> Settings:
    groups: dict[str, Any] = {
        name: group(**{key: _value(found[each.name]) for key, each in declared_in(group).items()})
        for name, group in GROUPS.items()
    }
    return Settings(**groups, found=found, unknown=unknown)


def _find(
    setting: Setting,
    file: Mapping[str, str],
    environment: Mapping[str, str],
    options: Mapping[str, str | None],
) -> FoundSetting:
    option = options.get(setting.name)
    if option is not None:
        return FoundSetting(setting, option, f"--{setting.name.replace('_', '-')}")
    if text := environment.get(setting.variable):
        return FoundSetting(setting, text, setting.variable)
    if setting.name in file:
        return FoundSetting(setting, file[setting.name], FILE)
    return FoundSetting(setting, setting.default, DEFAULT)


def _imply(found: dict[str, FoundSetting], name: str, text: str) -> None:
    """Fill in a default that depends on another setting."""
    if not found[name].text.strip():
        found[name] = msgspec.structs.replace(found[name], text=text)


def _value(found: FoundSetting) -> Any:
    try:
        return found.setting.parse(found.text)
    except ValueError as exc:
        text = f"{found.origin}: {found.setting.name} {_problem(found, exc)}"
        is_option = found.origin.startswith("--")
        raise SettingError(text, found.origin if is_option else "") from exc


def check_stored(name: str, text: str) -> str:
    """Return a text that can be stored for a setting. Raise `Invalid`, which repeats no secret."""
    setting = next((each for each in SETTINGS if each.name == name), None)
    if setting is None:
        raise Invalid(name, "is not a setting")
    if not setting.storable:
        raise Invalid(name, "must be set in the environment or in postroom.toml")
    text = text.strip()
    if len(text) > LONGEST_STORED:
        raise Invalid(name, f"must have at most {LONGEST_STORED:,} characters, not {len(text):,}")
    if not text.isprintable():
        raise Invalid(name, "must be a single line without control characters")
    try:
        setting.parse(text)
        if setting.check is not None and text:
            setting.check(text)
    except Invalid as exc:
        raise Invalid(name, exc.problem) from exc
    except ValueError as exc:
        raise Invalid(name, _problem(FoundSetting(setting, text, STORED), exc)) from exc
    except PostroomError as exc:
        raise Invalid(name, str(exc).removeprefix(f"{name} ")) from exc
    return text


def _problem(found: FoundSetting, exc: ValueError) -> str:
    """Return the requirement and the value that does not meet it; a secret is masked."""
    value = exc.value if isinstance(exc, RefusedValue) else None
    return f"{exc}, not {_quoted(found.shown if value is None else value)}"


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"-?\d+(\.\d+)?", value) else repr(value)


def _unknown(environment: Mapping[str, str]) -> tuple[str, ...]:
    known = {setting.variable for setting in SETTINGS}
    return tuple(sorted(n for n in environment if n.startswith(PREFIX) and n not in known))


def _read_file(path: Path) -> dict[str, str]:
    """Return the plain settings of the file; tables such as [[apps]] are read elsewhere."""
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
                f"{path}: unknown setting {name!r} (known: {', '.join(sorted(known))})"
            )
        plain[name] = str(value)
    return plain
