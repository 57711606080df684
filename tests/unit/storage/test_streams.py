"""Streams cut into pieces."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from postroom.storage import InvalidValue
from postroom.storage.checked import in_pieces


async def of(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize(
    ("parts", "pieces"),
    [
        ([], []),
        ([b""], []),
        ([b"abc"], [b"abc"]),
        ([b"abcd"], [b"abcd"]),
        ([b"abcdefghi"], [b"abcd", b"efgh", b"i"]),
        ([b"a", b"b", b"", b"cdef", b"g"], [b"abcd", b"efg"]),
    ],
)
async def test_pieces_have_the_size_but_the_last(parts: list[bytes], pieces: list[bytes]) -> None:
    assert [piece async for piece in in_pieces(of(*parts), 4)] == pieces


async def test_a_blob_cannot_be_text() -> None:
    with pytest.raises(InvalidValue, match="str"):
        async for _ in in_pieces(of(cast(Any, "text"))):
            pass
