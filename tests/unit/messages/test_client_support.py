"""Features that email programs lack are found where they are used, and only there."""

import time

import pytest

from postroom.services.messages.checks.client_support import missing_features
from tests.services.waiting import BUSY


def slugs(html: str) -> list[str]:
    return [each.slug for each in missing_features(html)]


@pytest.mark.parametrize(
    ("html", "slug"),
    [
        ('<div style="display: flex">x</div>', "css-display-flex"),
        ("<style>p { position: absolute }</style>", "css-position"),
        ("<style>@font-face { font-family: x }</style>", "css-at-font-face"),
        ('<p style="color: var(--x)">x</p>', "css-variables"),
        ('<p style="width: calc(100% - 1px)">x</p>', "css-unit-calc"),
        ("<STYLE media='a>b'>/* x */p { display: grid }</style >", "css-display-grid"),
        ("<style>/* x */</style><!-- --><style>p { float: left }</style>", "css-float"),
        ("<style>/* open</style><p style='float: left'>x</p>", "css-float"),
        ("<video src=x></video>", "html-video"),
        ('<img src="https://x.example/a.SVG?x=1">', "image-svg"),
        ('<img src="data:image/png;base64,AAAA">', "image-base64"),
        ('<img srcset="a.png 2x" src="a.png">', "html-srcset"),
        ('<link rel="stylesheet" href="https://x.example/a.css">', "html-link"),
    ],
)
def test_a_feature_is_found(html: str, slug: str) -> None:
    assert slug in slugs(html)


@pytest.mark.parametrize(
    "html",
    [
        "<p>display: flex; position: absolute; calc(1px)</p>",
        "<!--[if mso]><style>p { position: absolute }</style><![endif]-->",
        '<p style="max-width: 600px; background-position: left">x</p>',
        '<div style="display: block; float: none">x</div><img src="https://x.example/a.png">',
        "<style>p { color: red } /* position: absolute",
        "<style>p { color: red } /* position: absolute</style>",
        "<style>/* position: absolute */ @media (max-width: 9px) { p { color: red } }</style>",
    ],
)
def test_nothing_is_found_where_nothing_is_used(html: str) -> None:
    assert slugs(html) == []


def test_programs_are_named_and_lost_content_is_distinguished_from_looks() -> None:
    [video] = missing_features("<video></video>")
    assert video.loses_content
    assert "Gmail" in video.missing_in
    [flex] = missing_features('<p style="display:flex">x</p>')
    assert not flex.loses_content
    assert flex.missing_in == ("Outlook for Windows",)


@pytest.mark.parametrize("opener", ["<!--", "<style>", "<style>p{}</style", "/*"])
def test_openers_that_are_never_closed_take_no_longer(opener: str) -> None:
    began = time.perf_counter()
    missing_features(f"<style>{opener * 100_000}</style>")
    missing_features(opener * 100_000)
    missing_features("<style>p { " + "a" * 100_000 + " " * 100_000)
    assert time.perf_counter() - began < 5.0 * BUSY
