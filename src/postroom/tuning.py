"""How a process that runs for long, and makes many objects, is tuned."""

from __future__ import annotations

import asyncio
import gc


def quick_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed: it halves the processor time of a mail."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def collect_less() -> None:
    """Fewer searches for cycles: a page makes thousands of objects and hardly ever one. What was
    imported stays, and is not searched again."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
