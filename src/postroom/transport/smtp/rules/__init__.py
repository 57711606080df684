"""The table of replies, in the order in which its rules are asked; see `reply_table.py`."""
