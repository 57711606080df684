"""Properties of a list: how each is named, checked, entered and stored."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any, Final

import msgspec

from postroom.domain.plain_text import one_line, some_lines

REQUIRED: Final = None


class Input(Enum):
    """How a value is entered."""

    LINE = auto()
    LINES = auto()
    ADDRESS = auto()
    COLOUR = auto()
    LINK = auto()
    LINKS = auto()
    CHOICE = auto()
    FLAG = auto()


class ListForm(Enum):
    """The form of a list's pages that a property is edited in."""

    LIST = auto()
    SIGNUP_PAGE = auto()
    BRAND = auto()
    NONE = auto()


class ListProperty(msgspec.Struct, frozen=True):
    """One property of a list.

    `check` returns the value as it is kept or raises `Invalid`; `restore` turns a stored value into
    one that is still known. `form` is the form that has it. `in_api` covers the command line, too.
    """

    name: str
    stored_as: str
    label: str
    help: str
    check: Callable[[Any], Any]
    default: str | bool | None = ""
    input: Input = Input.LINE
    longest: int = 0
    example: str = ""
    choices: tuple[str, ...] = ()
    restore: Callable[[Any], Any] = lambda value: value
    form: ListForm = ListForm.LIST
    in_api: bool = True

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def type(self) -> type[str] | type[bool]:
        return bool if self.input is Input.FLAG else str


def line(name: str, longest: int, *, required: bool = True, **others: Any) -> ListProperty:
    """Return a property that is one line of text, which may be empty only if it is optional."""
    check = partial(one_line, name, longest=longest, required=required)
    return ListProperty(name=name, check=check, longest=longest, **others)


def lines(name: str, longest: int, **others: Any) -> ListProperty:
    """Return a property that is some lines of text."""
    check = partial(some_lines, name, longest=longest)
    return ListProperty(name=name, check=check, longest=longest, input=Input.LINES, **others)
