"""Whole documents and fragments."""

import pytest

from postroom.mail.bodies.documents import is_document


@pytest.mark.parametrize(
    ("source", "is_whole"),
    [
        ("<p>Hello</p>", False),
        (" <!-- a --> <!-- b -->\n<!DOCTYPE html><p>Hello</p>", True),
        ("<!-- a --><p>Hello</p>", False),
        ("<html><p>Hello</p></html>", True),
        ("<body>Hello</body>", True),
        ("<!doctypes><p>Hello</p>", False),
    ],
)
def test_documents_and_fragments_are_distinguished(source: str, is_whole: bool) -> None:
    assert is_document(source) == is_whole


@pytest.mark.timeout(20)
def test_many_comments_take_no_time() -> None:
    """Conditional comments for Outlook come in hundreds; this once took time without end."""
    assert not is_document("<!--[if mso]>x<![endif]--><!-- y -->" * 500 + "<p>Hello</p>")
