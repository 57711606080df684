"""The settings: declared once, loaded at the start, passed on as typed groups.

Those that may be stored are read from the store, too, and again when they change
(`wiring/live_settings.py`).

No other part of Postroom reads the environment for a setting.
"""

from postroom.settings.declared import GROUPS, SETTINGS, Settings
from postroom.settings.declaring import STORED, FoundSetting, Setting
from postroom.settings.loading import (
    FILE,
    SettingError,
    check_stored,
    load_settings,
    with_option,
    with_stored,
)
from postroom.settings.parsing import TrustedProxies

__all__ = [
    "FILE",
    "GROUPS",
    "SETTINGS",
    "STORED",
    "FoundSetting",
    "Setting",
    "SettingError",
    "Settings",
    "TrustedProxies",
    "check_stored",
    "load_settings",
    "with_option",
    "with_stored",
]
