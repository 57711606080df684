"""The low-space mark: how it is written, and when messages may start."""

import pytest

from postroom.domain.disk_space import FolderSpace, SpaceMark, find_shortage, parse_space_mark
from postroom.domain.units import show_size

MB, GB = 1000**2, 1000**3
MARK = SpaceMark(200 * MB, 0.05)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("200MB,5%", MARK),
        (" 5 % , 200 mb ", MARK),
        ("1GB", SpaceMark(size=GB)),
        ("2.5%", SpaceMark(share=0.025)),
        ("0", SpaceMark()),
        ("", SpaceMark()),
    ],
)
def test_a_mark_is_a_size_a_percentage_or_both(text: str, mark: SpaceMark) -> None:
    assert parse_space_mark(text) == mark


@pytest.mark.parametrize("text", ["lots", "200", "-1MB", "100%", "5%,6%", "1MB,2MB", "1MB,", "٣%"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="must be a size, a percentage or both"):
        parse_space_mark(text)


@pytest.mark.parametrize(
    ("free", "total", "mark", "needed"),
    [
        (199 * MB, 1000 * GB, MARK, 200 * MB),
        (200 * MB, 1000 * GB, MARK, None),
        (3 * MB, 64 * MB, MARK, 3_200_000),  # a small disk: its percentage counts
        (4 * MB, 64 * MB, MARK, None),
        (3 * MB, 64 * MB, SpaceMark(size=200 * MB), 200 * MB),
        (0, 64 * MB, SpaceMark(), None),
        (0, 0, MARK, None),  # a file system that says nothing about its size
    ],
)
def test_the_smaller_of_size_and_percentage_counts(
    free: int, total: int, mark: SpaceMark, needed: int | None
) -> None:
    found = find_shortage([FolderSpace("/data", free, total)], mark)
    # What is needed to start again is a tenth more.
    assert (found and found.needed) == (needed and int(needed * 1.1))


def test_messages_start_again_only_with_a_tenth_more_than_the_mark() -> None:
    for free, is_short in ((199, True), (200, True), (219, True), (220, False)):
        found = find_shortage([FolderSpace("/data", free * MB, 1000 * GB)], MARK, was_short=True)
        assert (found is not None) == is_short, free


def test_one_full_disk_of_several_is_enough_and_the_fullest_is_named() -> None:
    spaces = [
        FolderSpace("/data", 500 * GB, 1000 * GB),
        FolderSpace("/store", 120 * MB, 1000 * GB),
        FolderSpace("/other", 150 * MB, 1000 * GB),
    ]
    found = find_shortage(spaces, MARK)
    assert found is not None
    assert (found.folder, str(found)) == ("/store", "120 MB free, 220 MB needed")


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (999, "999 B"),
        (3_400, "3.4 KB"),
        (120 * MB, "120 MB"),
        (1_500 * GB, "1.5 TB"),
    ],
)
def test_sizes_are_shown_in_the_unit_that_fits(count: int, shown: str) -> None:
    assert show_size(count) == shown
