"""The mistakes that people and programs can make about lists, subscribers and messages.

    PostroomError
    └── DomainError
        ├── Invalid (ValueError)     a field that cannot be accepted; `field` names it
        │   └── Incomplete           several fields at once: a draft that cannot be sent yet
        ├── NoSuch (LookupError)     a list, subscriber, message or email that does not exist
        ├── Exists                   one of that name already exists
        ├── Overtaken                another change was saved first (the ETag is stale)
        ├── NotNow                   its state does not allow it; the text says which would
        ├── NotAllowed               a right on a queue is missing; the text names it
        └── NoListRight              a right on a list is missing; the text names it

Pages, API and command line turn these into responses; each text is one line that says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping

from postroom.errors import PostroomError


class DomainError(PostroomError):
    """Anything that breaks a rule of the domain."""


class Invalid(DomainError, ValueError):
    """A value that cannot be accepted."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class Incomplete(Invalid):
    """A draft that cannot be sent yet. `problems` says what is wrong, by field."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        field, problem = next(iter(problems.items()))
        super().__init__(field, problem)
        self.problems = dict(problems)

    def __str__(self) -> str:
        return "; ".join(f"{field}: {problem}" for field, problem in self.problems.items())


class NoSuch(DomainError, LookupError):
    """Nothing of this kind and name exists."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"there is no {kind} {name!r}")
        self.kind = kind
        self.name = name

    def __str__(self) -> str:
        return f"there is no {self.kind} {self.name!r}"


class Exists(DomainError):
    """Something of this kind and name already exists."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"the {kind} {name!r} already exists")
        self.kind = kind
        self.name = name


class Overtaken(DomainError):
    """Another change was saved first; nothing of this one was saved."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"the {kind} {name!r} has been changed by someone else: check it and try again"
        )


class NotNow(DomainError):
    """The current state does not allow it."""


class NotAllowed(DomainError):
    """A key or an application lacks a right on a queue."""

    def __init__(self, principal: str, right: str, queue: str) -> None:
        super().__init__(f"{principal} needs the right {right} on {queue}")
        self.principal = principal
        self.right = right
        self.queue = queue


class NoListRight(DomainError):
    """A user or key can see a list, but lacks a right on it."""

    def __init__(self, right: str, list_name: str = "") -> None:
        where = f"the list {list_name!r}" if list_name else "a list"
        super().__init__(f"this needs the right {right} on {where}")
        self.right = right
        self.list_name = list_name
