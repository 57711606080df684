"""Pictures that readers would not see are found, and nothing else."""

from __future__ import annotations

import pytest

from postroom.mail.bodies.html import unseen_pictures


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<img src="bild.png">', ["bild.png"]),
        ("<IMG alt='a'\n SRC = 'pics/a b.png'/>", ["pics/a b.png"]),
        ("<img src=/logo.png>", ["/logo.png"]),
        ('<img src="//cdn.example.org/a.png">', ["//cdn.example.org/a.png"]),
        ('<img src="file:///C:/a.png">', ["file:///C:/a.png"]),
        ('<img src="a&amp;b.png"><img src="a&amp;b.png">', ["a&b.png"]),
        ('<img src="https://example.org/a.png"><img src=" HTTP://example.org/a">', []),
        ('<img src="data:image/png;base64,AA=="><img src="cid:logo">', []),
        ('<img data-src="a.png"><img src=""><img><p src="a.png">', []),
        ('<img src="{{ email }}">', []),
        ('<!-- <img src="a.png"> --><style><img src="b.png"></style>', []),
    ],
)
def test_pictures_without_a_full_address(html: str, found: list[str]) -> None:
    assert unseen_pictures(html) == found


def test_a_hostile_document_takes_no_longer_than_another() -> None:
    assert unseen_pictures("<img " * 200_000) == []
    assert unseen_pictures("<img src" + " " * 200_000 + ">") == []
