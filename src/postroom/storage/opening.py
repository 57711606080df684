"""Opens the engine that a URL names. The only module that knows all three."""

from __future__ import annotations

from importlib import import_module

from postroom.storage.contract.store import Store
from postroom.storage.errors import InvalidStoreUrl

# scheme → (module with `async def connect(url) -> Store`, extra that installs its driver)
_ENGINES: dict[str, tuple[str, str | None]] = {
    "sqlite": ("postroom.storage.sqlite.engine", None),
    "postgresql": ("postroom.storage.postgres.engine", "postgres"),
    "azure": ("postroom.storage.azure.engine", "azure"),
}


async def open_existing_store(url: str, azure_connection_string: str = "") -> Store:
    """Open a store like `open_store`, but never create a file for a mistyped name."""
    if url.startswith("sqlite://"):
        import_module("postroom.storage.sqlite.engine").check_exists(url)
    return await open_store(url, azure_connection_string)


async def open_store(url: str, azure_connection_string: str = "") -> Store:
    """Open the store that a URL names, creating or upgrading its schema.

    - `sqlite:///relative.db`, `sqlite:////absolute/path.db`
    - `postgresql://user:password@host:port/database`
    - `azure://` with `azure_connection_string`, or `azure://ACCOUNT` with managed identity

    Raises `InvalidStoreUrl`, `StoreUnavailable`, `AccessDenied` or `StoreDamaged`, none of which
    repeats a password.
    """
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in _ENGINES:
        known = ", ".join(f"{name}://" for name in _ENGINES)
        shown = repr(scheme) if separator and scheme.isalpha() else "without a scheme"
        raise InvalidStoreUrl(f"a store URL must begin with one of {known}, not {shown}")
    module, extra = _ENGINES[scheme]
    try:
        engine = import_module(module)
    except ModuleNotFoundError as exc:
        if extra is None or (exc.name or "").startswith("postroom"):
            raise
        raise InvalidStoreUrl(
            f"{scheme}:// needs a driver that is not installed: pip install 'postroom[{extra}]'"
        ) from exc
    credentials = [azure_connection_string] if scheme == "azure" else []
    store: Store = await engine.connect(url, *credentials)
    return store
