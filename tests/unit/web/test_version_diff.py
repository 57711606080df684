"""The difference between two versions of a draft, as people read it."""

from hypothesis import given
from hypothesis import strategies as st

from postroom.web.admin.messages.drafting.version_diff import PieceKind, differing_pieces

OLD, NEW, SAME, GAP = PieceKind.OLD, PieceKind.NEW, PieceKind.SAME, PieceKind.GAP


def test_only_the_words_that_changed_are_marked() -> None:
    pieces = differing_pieces("<p>Two words</p>\n", "<p>Two swords</p>\n")
    assert [(each.kind, each.text) for each in pieces] == [
        (SAME, "<p>Two "), (OLD, "words"), (NEW, "swords"), (SAME, "</p>\n"),
    ]  # fmt: skip


def test_what_is_far_from_a_change_is_left_out() -> None:
    before = [f"line {number}\n" for number in range(100)]
    after = [*before[:50], "new\n", *before[50:]]
    pieces = differing_pieces("".join(before), "".join(after))
    assert [each.kind for each in pieces] == [GAP, SAME, NEW, SAME, GAP]
    assert pieces[0].text == "… 48 unchanged lines …\n"
    assert pieces[2].text == "new\n"


def test_equal_texts_have_no_difference_and_huge_ones_are_compared_as_a_whole() -> None:
    assert differing_pieces("a\n", "a\n") == []
    old, new = "a\n" * 30_000, "b\n" * 30_000
    assert [(each.kind, each.text) for each in differing_pieces(old, new)] == [
        (OLD, old), (NEW, new),
    ]  # fmt: skip


TEXTS = st.text(alphabet="ab \n<>", max_size=60)


@given(TEXTS, TEXTS)
def test_without_gaps_the_pieces_are_both_texts(old: str, new: str) -> None:
    pieces = differing_pieces(old, new)
    if old == new or any(each.kind is GAP for each in pieces):
        return
    assert "".join(each.text for each in pieces if each.kind is not NEW) == old
    assert "".join(each.text for each in pieces if each.kind is not OLD) == new
