"""The settings: declared once, loaded once at the start, passed on as typed groups.

No other part of Postroom reads the environment for a setting.
"""

from postroom.settings.declared import GROUPS, SETTINGS, FoundSetting, Setting, Settings
from postroom.settings.loading import FILE, SettingError, load_settings
from postroom.settings.parsing import TrustedProxies

__all__ = [
    "FILE",
    "GROUPS",
    "SETTINGS",
    "FoundSetting",
    "Setting",
    "SettingError",
    "Settings",
    "TrustedProxies",
    "load_settings",
]
