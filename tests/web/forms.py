"""The forms of a page, as a browser would find them."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlsplit


@dataclass
class Form:
    """Where it is sent, and its fields with the values that they begin with."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    unticked: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Each field once, but for the token, which no page leaves to a person."""
        names = dict.fromkeys([*(name for name, _ in self.fields), *self.unticked, *self.files])
        return [name for name in names if name != "csrf"]

    @property
    def kind(self) -> str:
        """The same for a form that is found again on the same page."""
        return f"{self.method} {urlsplit(self.action).path} {' '.join(self.names)}"


class _Reader(HTMLParser):
    def __init__(self, address: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._address = address
        self._now: Form | None = None
        self._select = ""
        self._text_of: str = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            action = given.get("action") or self._address
            self._now = Form(action, given.get("method", "get").lower())
            self.forms.append(self._now)
        if self._now is None:
            return
        name = given.get("name", "")
        if tag == "select":
            self._select = name
        elif tag == "option" and self._select:
            others = [each for each in self._now.fields if each[0] != self._select]
            if "selected" in given or len(others) == len(self._now.fields):
                self._now.fields[:] = [*others, (self._select, given.get("value", ""))]
                self._text_of = "" if "value" in given else self._select
        elif tag == "textarea":
            self._text_of = name
            self._now.fields.append((name, ""))
        elif tag in ("input", "button") and name:
            self._input(given, name, self._now)
        if "formaction" in given:
            now = self._now
            self.forms.append(
                Form(given["formaction"], "post", now.fields, now.unticked, now.files)
            )

    def _input(self, given: dict[str, str], name: str, form: Form) -> None:
        kind = given.get("type", "")
        if kind == "file":
            form.files.append(name)
        elif kind in ("checkbox", "radio") and "checked" not in given:
            form.unticked.append(name)
        else:
            form.fields.append((name, given.get("value", "")))

    def handle_data(self, data: str) -> None:
        if self._text_of and self._now is not None:
            name, text = self._now.fields.pop()
            # A line end at the beginning of a textarea belongs to the markup.
            self._now.fields.append((name, (text + data).removeprefix("\n")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._now = None
        elif tag == "select":
            self._select = ""
        elif tag in ("textarea", "option"):
            self._text_of = ""


def forms_in(html: str, address: str) -> list[Form]:
    """Return the forms of a page; a button with its own target counts as another form."""
    reader = _Reader(address)
    reader.feed(html)
    return reader.forms
