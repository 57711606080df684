"""Where settings come from: options, environment, `postroom.toml`, defaults."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from postroom.errors import PostroomError
from postroom.settings.declared import (
    GROUPS,
    PREFIX,
    SETTINGS,
    FoundSetting,
    Setting,
    Settings,
    declared_in,
)
from postroom.settings.parsing import RefusedValue

FILE = "postroom.toml"


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
    `folder` or its default, in this order. Raise `SettingError`."""
    file = _read_file(folder / FILE)
    found = {setting.name: _find(setting, file, environment, options or {}) for setting in SETTINGS}
    _imply(found, "store", f"sqlite:///{Path(found['data'].text)}/postroom.db")
    _imply(found, "base_url", f"http://localhost:{found['port'].text.strip()}")
    groups: dict[str, Any] = {
        name: group(**{key: _value(found[each.name]) for key, each in declared_in(group).items()})
        for name, group in GROUPS.items()
    }
    return Settings(**groups, found=found, unknown=_unknown(environment))


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
    return FoundSetting(setting, setting.default, "default")


def _imply(found: dict[str, FoundSetting], name: str, text: str) -> None:
    """Fill in a default that depends on another setting."""
    if not found[name].text.strip():
        found[name] = msgspec.structs.replace(found[name], text=text)


def _value(found: FoundSetting) -> Any:
    try:
        return found.setting.parse(found.text)
    except ValueError as exc:
        text = f"{found.origin}: {found.setting.name} {exc}"
        if not found.setting.secret:
            value = exc.value if isinstance(exc, RefusedValue) else None
            text += f", not {_quoted(found.shown if value is None else value)}"
        is_option = found.origin.startswith("--")
        raise SettingError(text, found.origin if is_option else "") from exc


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
