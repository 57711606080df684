"""The tree of the store's errors, as its module draws it."""

import inspect
import re

from postroom.errors import PostroomError
from postroom.storage import errors


def test_the_drawing_of_the_error_tree_is_correct() -> None:
    drawn: dict[str, tuple[str, set[str]]] = {}
    parents: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^( *(?:│   |    |├── |└── )*)([A-Z]\w+)(?: \((\w+)\))?", line)
        if not line.startswith("    ") or found is None:
            continue
        depth = (len(found[1]) - 4) // 4
        parents[depth:] = [found[2]]
        drawn[found[2]] = (parents[depth - 1] if depth else "", {found[3]} - {None})
    assert drawn.pop("PostroomError") == ("", set())
    defined = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, PostroomError) and kind is not PostroomError
    }
    assert drawn.keys() == defined.keys()
    for name, (parent, built_in) in drawn.items():
        assert {base.__name__ for base in defined[name].__bases__} == {parent} | built_in


def test_a_conflict_names_what_and_where() -> None:
    error = errors.StaleETag("message('2026-11-15', 'message1')", 7)
    assert str(error) == "message('2026-11-15', 'message1') was changed by another caller"
    assert error.operation == 7
