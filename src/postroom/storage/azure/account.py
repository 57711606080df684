"""From a store URL and a connection string to an account: where it is, and who we are there."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.credentials_async import AsyncTokenCredential
from azure.identity.aio import DefaultAzureCredential

from postroom.storage.azure.polling import FIRST_PAUSE, LONGEST_PAUSE
from postroom.storage.errors import InvalidStoreUrl

CONNECTION_STRING: Final = "POSTROOM_AZURE_CONNECTION_STRING"
SERVICES: Final = ("table", "queue", "blob")

_SCHEME: Final = "azure://"
_SLOWEST_POLL = 300.0
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_PUBLIC_CLOUD: Final = "core.windows.net"

# What `UseDevelopmentStorage=true` stands for. The key is printed in Microsoft's documentation.
_DEVELOPMENT: Final = {
    "accountname": "devstoreaccount1",
    "accountkey": (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    ),
    "blobendpoint": "http://127.0.0.1:10000/devstoreaccount1",
    "queueendpoint": "http://127.0.0.1:10001/devstoreaccount1",
    "tableendpoint": "http://127.0.0.1:10002/devstoreaccount1",
}

_KEYS: Final = (AzureNamedKeyCredential, AzureSasCredential)
Credential: TypeAlias = AzureNamedKeyCredential | AzureSasCredential | AsyncTokenCredential


@dataclass(frozen=True, slots=True)
class Account:
    """The addresses of an account's services, and the proof that we may use them."""

    endpoints: Mapping[str, str]
    credential: Credential

    @property
    def location(self) -> str:
        """Where the blobs are, for people. Holds no secret."""
        address = urlsplit(self.endpoints["blob"])
        return f"{address.scheme}://{address.hostname}{_port(address.port)}{address.path}"

    @property
    def identity(self) -> AsyncTokenCredential | None:
        """The credential that has to ask somebody for tokens, if it is one."""
        return None if isinstance(self.credential, _KEYS) else self.credential


def without_poll(url: str) -> tuple[str, float]:
    """The URL of an account, and how long to pause at most between two looks at a queue."""
    rest, separator, query = url.partition("?")
    if not separator:
        return url, LONGEST_PAUSE
    found = re.fullmatch(r"poll=(\d{1,4}(?:\.\d{1,3})?)", query)
    if found is None or not FIRST_PAUSE <= float(found[1]) <= _SLOWEST_POLL:
        raise InvalidStoreUrl(
            f"after azure://…? only poll={FIRST_PAUSE:g} to {_SLOWEST_POLL:g} can be said:"
            " the longest pause between two looks at an empty queue, in seconds"
        )
    return rest, float(found[1])


def account_of(url: str, connection_string: str) -> Account:
    """Return the account of the connection string (`azure://`) or, with managed identity, of the
    URL (`azure://ACCOUNT`)."""
    name = url.removeprefix(_SCHEME).rstrip("/")
    if name:
        return _account_by_identity(name)
    if not connection_string.strip():
        raise InvalidStoreUrl(
            f"azure:// needs the account's connection string: set {CONNECTION_STRING},"
            " or name the account, azure://ACCOUNT, to use managed identity"
        )
    return _account_by_connection_string(connection_string.strip())


def _account_by_identity(name: str) -> Account:
    if not _ACCOUNT.fullmatch(name):
        raise InvalidStoreUrl(
            "azure://ACCOUNT: an account's name has 3 to 24 lower-case letters and digits"
        )
    endpoints = {kind: f"https://{name}.{kind}.{_PUBLIC_CLOUD}" for kind in SERVICES}
    return Account(endpoints, DefaultAzureCredential())


def _account_by_connection_string(text: str) -> Account:
    """No error repeats a part of the text: any of it may be the key."""
    parts = _parts(text)
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        parts = {**_DEVELOPMENT, **parts}
    return Account({kind: _endpoint(parts, kind) for kind in SERVICES}, _credential(parts))


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, separator, value = part.partition("=")
        if not separator or not name or not value:
            raise InvalidStoreUrl(f"{CONNECTION_STRING} is not of the form Name=value;Name=value")
        parts[name.lower()] = value
    return parts


def _credential(parts: Mapping[str, str]) -> Credential:
    if signature := parts.get("sharedaccesssignature"):
        return AzureSasCredential(signature.removeprefix("?"))
    name, key = parts.get("accountname"), parts.get("accountkey")
    if not name or not key:
        raise InvalidStoreUrl(
            f"{CONNECTION_STRING} needs AccountName and AccountKey, or SharedAccessSignature"
        )
    try:
        b64decode(key, validate=True)
    except binascii.Error:
        malformed = True
    else:
        malformed = False
    if malformed:  # outside the handler, so that nothing of the key hangs on to the error
        raise InvalidStoreUrl(f"{CONNECTION_STRING}: AccountKey is not valid base64")
    return AzureNamedKeyCredential(name, key)


def _endpoint(parts: Mapping[str, str], kind: str) -> str:
    address = parts.get(f"{kind}endpoint") or _usual_endpoint(parts, kind)
    if not _is_http(address):
        raise InvalidStoreUrl(f"{CONNECTION_STRING}: the address of the {kind} service is no URL")
    return address.rstrip("/")


def _usual_endpoint(parts: Mapping[str, str], kind: str) -> str:
    name = parts.get("accountname")
    if not name:
        raise InvalidStoreUrl(f"{CONNECTION_STRING} needs AccountName, or {kind.title()}Endpoint")
    scheme = parts.get("defaultendpointsprotocol", "https")
    return f"{scheme}://{name}.{kind}.{parts.get('endpointsuffix', _PUBLIC_CLOUD)}"


def _is_http(address: str) -> bool:
    try:
        parsed = urlsplit(address)
        return parsed.scheme in ("http", "https") and bool(parsed.hostname) and parsed.port != 0
    except ValueError:
        return False


def _port(port: int | None) -> str:
    return "" if port is None else f":{port}"
