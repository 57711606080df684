"""The example data of `postroom up --demo`: 90 days of an invented organisation.

`plans.py` says which lists and messages there are, `memberships.py` invents who joined and left,
and `filling.py` writes it all as Postroom would have written it. The same seed gives the same
people.
"""

from postroom.cli.operations.demo.filling import fill_with_examples

__all__ = ["fill_with_examples"]
