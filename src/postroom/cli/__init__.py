"""The command line: one folder per noun, and `main`, which combines them into one command."""
