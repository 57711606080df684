"""Use cases: everything that pages, API, command line and workers do, once.

They speak the domain's words and the store's contract, and know neither HTTP nor an engine.
"""
