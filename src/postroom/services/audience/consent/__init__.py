"""The consent ledger: its rows, its check, and what is stored about one person."""
