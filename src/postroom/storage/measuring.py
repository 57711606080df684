"""Metrics of the store: how long calls take, and how often they fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from postroom.observability.metrics import STORE_ERRORS, STORE_SECONDS
from postroom.storage.errors import StoreOutage

P = ParamSpec("P")
R = TypeVar("R")


Call: TypeAlias = Callable[P, Coroutine[Any, Any, R]]


def measured(operation: str) -> Callable[[Call[P, R]], Call[P, R]]:
    """Time each call and count outages. A refusal such as `AlreadyExists` is not a failure."""

    def decorate(call: Call[P, R]) -> Call[P, R]:
        @wraps(call)
        async def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            start = time.perf_counter()
            try:
                return await call(*args, **kwargs)
            except StoreOutage as exc:
                STORE_ERRORS.add(1, type(exc).__name__)
                raise
            finally:
                STORE_SECONDS.observe(time.perf_counter() - start, operation)

        return timed

    return decorate
