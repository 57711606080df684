"""Buckets divide an audience evenly, the same way every time."""

from collections import Counter

from postroom.domain.audience.lists.lists import new_guids
from postroom.domain.messages.waves.buckets import ALL_BUCKETS, BUCKETS, BucketRange, bucket_of

GUIDS = new_guids(20_000)


def test_shares_have_about_their_size_and_do_not_overlap() -> None:
    shares = (BucketRange(0, 100), BucketRange(100, 2500), BucketRange(2500, BUCKETS))
    counts = Counter(
        next(share for share in shares if bucket_of("634852858215726983", guid) in share)
        for guid in GUIDS
    )
    for share in shares:
        assert abs(counts[share] / len(GUIDS) - share.share) < 0.02
    assert counts.total() == len(GUIDS)


def test_a_bucket_stays_and_another_key_shuffles_everyone_again() -> None:
    first = [bucket_of("1", guid) for guid in GUIDS]
    assert first == [bucket_of("1", guid) for guid in GUIDS]
    same = sum(a == b for a, b in zip(first, (bucket_of("2", guid) for guid in GUIDS), strict=True))
    assert same < 50
    assert all(each in ALL_BUCKETS for each in first)
