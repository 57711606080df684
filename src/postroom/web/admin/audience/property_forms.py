"""Forms for some of a list's properties: the sign-up page and the brand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.list_property import Input, ListForm
from postroom.domain.audience.lists.lists import (
    PROPERTIES,
    MailingList,
    properties_of,
)
from postroom.domain.errors import Invalid, Overtaken
from postroom.web.requests.forms import differences
from postroom.web.requests.visit import Visit


class PropertyForm(msgspec.Struct, frozen=True):
    """The form of some properties, and how its page is rendered. `save_more` saves what is no
    property, such as an uploaded file, after the properties; it may refuse it before that. `load`
    reads what else the page shows of the list as it is saved."""

    form: ListForm
    page: str
    what: str
    values_of_page: Callable[[MailingList, Mapping[str, str]], dict[str, Any]]
    prepare: Callable[[Visit], Awaitable[Any]] | None = None
    save_more: Callable[[Visit, MailingList, Any], Awaitable[None]] | None = None
    load: Callable[[Visit, MailingList], Awaitable[dict[str, Any]]] | None = None

    async def respond(self, visit: Visit) -> Response:
        """Show the page, or save the form."""
        current = await visit.services.lists.get(visit.parameter("name"))
        if visit.request.method != "POST":
            return await self._render(visit, current, self._fields(current))
        given, etag = await self.given(visit), await visit.text("etag") or current.etag
        try:
            more = await self.prepare(visit) if self.prepare else None
            saved = await visit.services.lists.edit(
                current.name, etag=etag, **self._properties(given)
            )
            if self.save_more:
                await self.save_more(visit, saved, more)
        except Invalid as exc:
            same = msgspec.structs.replace(current, etag=etag)
            problems = {exc.field: exc.problem}
            return await self._render(visit, same, given, status=422, problems=problems)
        except Overtaken:
            theirs = await visit.services.lists.get(current.name)
            labels = {each.name: each.label for each in properties_of(self.form)}
            found = differences(labels, given, self._fields(theirs))
            return await self._render(visit, theirs, given, status=409, theirs=found)
        await visit.audit(f"changed {self.what} of list", current.name)
        return visit.redirect(visit.path, "Saved.")

    async def preview(self, visit: Visit, template: str) -> Response:
        """Render a part of the page with what is typed."""
        current = await visit.services.lists.get(visit.parameter("name"))
        given = await self.given(visit)
        return visit.render(template, list=current, **self.values_of_page(current, given))

    async def given(self, visit: Visit) -> dict[str, str]:
        """Return what was typed; a switch is `yes` or `no`."""
        given = {each.name: await visit.text(each.name) for each in properties_of(self.form)}
        switches = (name for name in given if PROPERTIES[name].input is Input.FLAG)
        return {**given, **{name: "yes" if given[name] else "no" for name in switches}}

    def _fields(self, mailing_list: MailingList) -> dict[str, str]:
        return {each.name: _shown(mailing_list, each.name) for each in properties_of(self.form)}

    def _properties(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the properties to save; a choice that was not made stays as it is."""
        return {
            each.name: given[each.name] == "yes"
            if each.input is Input.FLAG
            else given[each.name] or (None if each.choices else "")
            for each in properties_of(self.form)
        }

    async def _render(
        self,
        visit: Visit,
        current: MailingList,
        values: Mapping[str, str],
        *,
        status: int = 200,
        **more: Any,
    ) -> Response:
        loaded = await self.load(visit, current) if self.load else {}
        return visit.render(
            self.page,
            status=status,
            **{
                "list": current,
                "values": values,
                "properties": {each.name: each for each in properties_of(self.form)},
                "problems": {},
                "theirs": [],
                **self.values_of_page(current, values),
                **loaded,
                **more,
            },
        )


def _shown(mailing_list: MailingList, name: str) -> str:
    value = getattr(mailing_list, name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
