"""The storage account: its addresses and credentials, from a store URL and a connection string."""

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

from postroom.storage.errors import InvalidStoreUrl

CONNECTION_STRING: Final = "POSTROOM_AZURE_CONNECTION_STRING"
SERVICES: Final = ("table", "queue", "blob")

_SCHEME: Final = "azure://"
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
    """The addresses of an account's services, and the credential to use them."""

    endpoints: Mapping[str, str]
    credential: Credential

    @property
    def location(self) -> str:
        """The address of the blob service, for people, without secrets."""
        address = urlsplit(self.endpoints["blob"])
        return f"{address.scheme}://{address.hostname}{_port(address.port)}{address.path}"

    @property
    def identity(self) -> AsyncTokenCredential | None:
        """The credential, if it is one that requests tokens."""
        return None if isinstance(self.credential, _KEYS) else self.credential


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
            "azure://ACCOUNT: the account name must have 3 to 24 lower-case letters and digits"
        )
    endpoints = {kind: f"https://{name}.{kind}.{_PUBLIC_CLOUD}" for kind in SERVICES}
    return Account(endpoints, DefaultAzureCredential())


def _account_by_connection_string(text: str) -> Account:
    """Parse a connection string. No error quotes it: any part may be the key."""
    parts = _parts(text)
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        parts = {**_DEVELOPMENT, **parts}
    return Account({kind: _endpoint(parts, kind) for kind in SERVICES}, _credential(parts))


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, separator, value = part.partition("=")
        if not separator or not name or not value:
            raise InvalidStoreUrl(f"{CONNECTION_STRING} must have the form Name=value;Name=value")
        parts[name.lower()] = value
    return parts


def _credential(parts: Mapping[str, str]) -> Credential:
    if signature := parts.get("sharedaccesssignature"):
        return AzureSasCredential(signature.removeprefix("?"))
    name, key = parts.get("accountname"), parts.get("accountkey")
    if not name or not key:
        raise InvalidStoreUrl(
            f"{CONNECTION_STRING} must contain AccountName and AccountKey, or SharedAccessSignature"
        )
    try:
        b64decode(key, validate=True)
    except binascii.Error:
        malformed = True
    else:
        malformed = False
    if malformed:  # outside the handler, so that the error carries no part of the key
        raise InvalidStoreUrl(f"{CONNECTION_STRING}: AccountKey must be base64")
    return AzureNamedKeyCredential(name, key)


def _endpoint(parts: Mapping[str, str], kind: str) -> str:
    address = parts.get(f"{kind}endpoint") or _usual_endpoint(parts, kind)
    if not _is_http(address):
        raise InvalidStoreUrl(f"{CONNECTION_STRING}: {kind.title()}Endpoint must be a URL")
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
