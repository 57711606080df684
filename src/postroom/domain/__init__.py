"""The concepts of Postroom as types and rules, without any I/O."""
