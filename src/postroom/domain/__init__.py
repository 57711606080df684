"""The words of Postroom as types and rules. Nothing here reads or writes anything."""
