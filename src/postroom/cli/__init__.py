"""The command line: one module a noun, gathered into one command in `main`."""
