"""The table from which store, API, command line and form for lists are derived."""

import msgspec
import pytest

from postroom.domain.audience.lists.list_property import ListProperty
from postroom.domain.audience.lists.lists import PROPERTIES, MailingList
from postroom.domain.errors import Invalid


def test_every_property_of_a_list_is_in_the_table() -> None:
    fields = {each.name: each for each in msgspec.structs.fields(MailingList)}
    assert set(fields) == {*PROPERTIES, "name", "created_at", "etag"}
    for name, each in PROPERTIES.items():
        default = fields[name].default
        assert each.is_required is (default is msgspec.NODEFAULT), name
        assert each.is_required or each.default == default, name
    assert len({each.stored_as for each in PROPERTIES.values()}) == len(PROPERTIES)


@pytest.mark.parametrize("each", PROPERTIES.values(), ids=list(PROPERTIES))
def test_examples_and_defaults_are_valid_and_problems_name_the_property(each: ListProperty) -> None:
    if each.example:
        assert each.check(each.example) == each.example
    if isinstance(each.default, str):
        assert each.check(each.default) == each.default
    if each.longest:
        with pytest.raises(Invalid) as refused:
            each.check("x" * (each.longest + 1))
        assert refused.value.field == each.name
