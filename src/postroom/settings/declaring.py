"""What declares a setting, and the group that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from postroom.settings.parsing import masked

PREFIX = "POSTROOM_"

T = TypeVar("T")


class Setting(msgspec.Struct, frozen=True):
    """The declaration of a setting. `parse` turns its text into its value, or raises ValueError
    with the requirement. `storable`: it can also be set in the browser, and is then kept in the
    store. `check` raises an error for what would be noticed only when the value is used, when
    nobody is there to correct it."""

    name: str
    default: str
    help: str
    parse: Callable[[str], Any]
    secret: bool = False
    is_url: bool = False
    storable: bool = False
    check: Callable[[str], object] | None = None

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


DEFAULT, STORED = "default", "stored"
"""Origins of settings that can be changed in the browser."""


class FoundSetting(msgspec.Struct, frozen=True):
    """The text of a setting and where it came from: an option, an environment variable, a file, the
    store, or its default."""

    setting: Setting
    text: str
    origin: str

    @property
    def is_fixed(self) -> bool:
        """Whether an option, the environment or the file decides, whatever is stored."""
        return self.origin not in (DEFAULT, STORED)

    @property
    def has_secret(self) -> bool:
        """Return whether the text has a part that is masked when it is shown."""
        return bool(self.text) and self.text != self.shown

    @property
    def shown(self) -> str:
        """Return the text with secrets masked, including user names and passwords in URLs."""
        if self.setting.secret:
            return "●●●●●●" if self.text else "(not set)"
        return masked(self.text) if self.setting.is_url else self.text


def setting(
    name: str,
    default: str,
    help: str,
    parse: Callable[[str], T],
    *,
    secret: bool = False,
    is_url: bool = False,
    storable: bool = False,
    check: Callable[[str], object] | None = None,
) -> T:
    """Declare an attribute of a group. Its type must be what `parse` returns."""
    return cast(T, Setting(name, default, help, parse, secret, is_url, storable, check))


class SettingGroup(msgspec.Struct, frozen=True):
    """Settings that belong together."""


def declared_in(group: type[SettingGroup]) -> dict[str, Setting]:
    """Return the settings of a group by attribute."""
    return {field.name: field.default for field in msgspec.structs.fields(group)}
