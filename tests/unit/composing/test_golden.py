"""What the templates and blocks are compiled to, byte for byte.

After a change that is meant, write the files again and look at them:
`POSTROOM_WRITE_GOLDEN=1 .venv/bin/pytest tests/unit/composing/test_golden.py`
"""

import json
import os
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from postroom.composing.blocks.blocks import Block
from postroom.composing.builtin import BUILT_IN
from postroom.composing.compiler import Compiled
from postroom.composing.layouts import slots_of
from postroom.mail.mail_reader import read_mail
from tests.unit.composing.samples import BRAND, EVERY_BLOCK, every_sample
from tests.unit.mail.mailings import GUID, mailing, recipient
from tests.unit.mail.strict import bodies, parse

GOLDEN = Path(__file__).with_name("golden")
SAMPLES = every_sample()
VOID = {"br", "col", "hr", "img", "input", "link", "meta", "wbr"}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("kind", ["html", "text"])
def test_a_sample_is_compiled_to_its_golden_file(name: str, kind: str) -> None:
    compiled = getattr(SAMPLES[name], kind).replace("><", ">\n<")  # for readable differences
    file = GOLDEN / f"{name}.{'html' if kind == 'html' else 'txt'}"
    if os.environ.get("POSTROOM_WRITE_GOLDEN"):
        file.write_text(compiled, encoding="utf-8")
    assert compiled == file.read_text(encoding="utf-8")


def test_every_kind_of_block_is_in_a_golden_file() -> None:
    used = {each["type"] for each in json.loads(EVERY_BLOCK)["blocks"]}
    assert used == {kind.__struct_config__.tag for kind in get_args(Block)}


class _Reader(HTMLParser):
    """Checks that tags are closed in order, and collects what a document has."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize(("name", "compiled"), SAMPLES.items())
def test_a_sample_is_a_well_formed_document(name: str, compiled: Compiled) -> None:
    assert not compiled.findings, name
    reader = _Reader()
    reader.feed(compiled.html)
    reader.close()
    assert reader.open == []
    tags = dict(reader.tags)
    assert compiled.html.lower().startswith("<!doctype html>")
    assert tags["html"]["lang"] == "en"
    metas = [attributes for tag, attributes in reader.tags if tag == "meta"]
    assert {"name": "color-scheme", "content": "light dark"} in metas
    assert any(each.get("name") == "viewport" for each in metas)
    assert any("utf-8" in str(each).lower() for each in metas)
    assert all("alt" in attributes for tag, attributes in reader.tags if tag == "img")
    assert "googleapis" not in compiled.html, "fonts that nobody asked for"
    assert "@media (prefers-color-scheme: dark)" in compiled.html
    assert "{%" not in compiled.html


@pytest.mark.parametrize("name", BUILT_IN)
def test_an_email_from_a_template_has_one_footer(name: str) -> None:
    """The template's own footer replaces the one that is otherwise added."""
    sample = SAMPLES[name]
    made = mailing(
        html=sample.html, text=sample.text, postal_address=BRAND.postal_address, subject="x"
    )
    both = bodies(parse(made.mail(recipient())))
    for body in both.values():
        assert body.count("1 Main Street, Dublin") == 1
        assert body.count(GUID) == 2, "to the preferences, and to unsubscribe"
        assert "{{" not in body
    assert read_mail(made.mail(recipient())).html is not None


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_example_of_a_template_fills_its_required_slots(name: str) -> None:
    template = BUILT_IN[name]
    required = {slot.name for slot in slots_of(template.layout) if slot.is_required}
    assert required <= template.example_slots.keys()
