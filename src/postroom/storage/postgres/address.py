"""From a store URL to the parameters of a connection, without ever repeating a password."""

from __future__ import annotations

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

from postroom.storage.errors import InvalidStoreUrl

_SCHEME = "postgresql://"
_FORM = "a PostgreSQL store is written postgresql://user:password@host:port/database"

# What a URL may override. A server that vanished without a word is found out within about 15 s:
# by keepalives while we wait for an answer, by the user timeout while it does not take our data.
_DEFAULTS = {
    "application_name": "postroom",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}


def parameters_of(url: str) -> dict[str, str]:
    """libpq's parameters. `InvalidStoreUrl`.

    libpq takes an unescaped `@` or `/` in a password for the end of a part and then names the
    rest of the password, as a host or a port, in its errors. So such a URL is refused here.
    """
    authority, rest = _split(url)
    if authority.count("@") > 1 or "@" in rest:
        raise InvalidStoreUrl(
            f"{_FORM}; @ / ? % inside a part are percent-encoded (%40 %2F %3F %25)"
        )
    try:
        found = conninfo_to_dict(url)
    except psycopg.Error:  # whose text may be the whole URL
        raise InvalidStoreUrl(f"{_FORM}; this one cannot be read") from None
    parameters = {name: str(value) for name, value in found.items() if value is not None}
    ports = parameters.get("port", "").split(",")
    if not all(port == "" or port.isdecimal() for port in ports):
        raise InvalidStoreUrl(f"{_FORM}; its port is not a number")
    if not parameters.get("dbname") and "service" not in parameters:
        raise InvalidStoreUrl(f"{_FORM}; the database is missing")
    return {**_DEFAULTS, **parameters, "client_encoding": "utf8"}


def _split(url: str) -> tuple[str, str]:
    """User, password, hosts and ports; and what follows them."""
    if not url.startswith(_SCHEME):
        raise InvalidStoreUrl(_FORM)
    authority, *rest = re.split(r"(?=[/?])", url.removeprefix(_SCHEME), maxsplit=1)
    return authority, "".join(rest)


def location_in(parameters: dict[str, str]) -> str:
    """Where the parameters lead, for people."""
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    port = parameters.get("port") or "5432"
    return f"{host}:{port}/{parameters.get('dbname', '')}"
