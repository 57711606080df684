"""The real services that tests run against: each started on loopback, on a free port, and stopped.

One module a service, each with one context manager. The fixtures over them are in
`tests/conftest.py`. A service that is not installed goes through `missing.require`.
"""
