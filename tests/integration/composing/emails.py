"""Emails of everything that can be composed, as mail servers get them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import msgspec

from postroom.composing.builtin import BUILT_IN
from postroom.composing.compiler import Compiled, compile_source
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.brand import Brand
from postroom.domain.audience.lists.list_emails import ListEmail
from postroom.domain.audience.lists.lists import ListName, MailingList
from postroom.domain.languages import LANGUAGES
from postroom.domain.messages.messages import MessageFormat
from postroom.domain.messages.refs import MessageRef
from postroom.mail.bodies.attached_files import AttachedFile
from postroom.mail.compose import compile_mailing
from postroom.sender.list_mailings import welcome_mailing
from tests.unit.composing.samples import BRAND, EVERY_BLOCK, MARKDOWN, example_of
from tests.unit.mail.mailings import DATE, confirmation, recipient

SUBJECT: Final = "Grüße aus dem Garten – Winter in the garden ❄"
ATTACHMENTS: Final = (
    AttachedFile("Programme – Frühling.pdf", "application/pdf", bytes(range(256)) * 9),
    AttachedFile("dates.csv", "text/csv", b"date,what\r\n2026-12-12,Jahresversammlung\r\n"),
)
HELLO: Final = "<p>Dear members, the shed is built and the seed catalogue is printed.</p>"
MJML: Final = """\
<mjml lang="en">
  <mj-body>
    <mj-section>
      <mj-column>
        <mj-text><h1>Winter in the garden</h1><p>The last apples are in.</p></mj-text>
        <mj-button href="https://contoso.example/">Read more</mj-button>
      </mj-column>
    </mj-section>
  </mj-body>
</mjml>
"""


def every_email() -> dict[str, bytes]:
    """Return an email of each template, each kind of block and each format, and those that
    Postroom writes itself, in every language. One of them has attachments."""
    emails = {f"template {name}": _email(example_of(each)) for name, each in BUILT_IN.items()}
    emails |= {f"block {name}": _email(_compiled(each)) for name, each in _each_block().items()}
    written = {
        MessageFormat.BLOCKS: EVERY_BLOCK,
        MessageFormat.MARKDOWN: MARKDOWN,
        MessageFormat.HTML: f"<h1>Winter</h1>\n{HELLO}",
        MessageFormat.MJML: MJML,
    }
    for format, source in written.items():
        emails[f"format {format}"] = _email(compile_source(source, format, BRAND))
    emails["attachments"] = _email(example_of(BUILT_IN["letter"]), attachments=ATTACHMENTS)
    brand = Brand(colour=BRAND.colour, postal_address=BRAND.postal_address)
    for language in LANGUAGES:
        mailing = confirmation(language=language, brand=brand)
        emails[f"confirmation {language}"] = mailing.mail(recipient())
        emails[f"welcome {language}"] = _welcome(language, brand)
    with_logo = msgspec.structs.replace(brand, logo="contoso1,3f09.png")
    emails["confirmation with a logo"] = confirmation(brand=with_logo).mail(recipient())
    emails["welcome with a logo"] = _welcome("en", with_logo)
    own = ListEmail(
        "Welcome!", "# Hello\n\nThe gate is *open*.\n\n[Come in](https://contoso.example/)"
    )
    emails["welcome in own words"] = _welcome("en", brand, own)
    return emails


def _welcome(language: str, brand: Brand, own: ListEmail | None = None) -> bytes:
    mailing_list = MailingList(
        name=ListName("contoso1"),
        description=BRAND.name,
        from_address=Address("news@contoso.example"),
        created_at=DATE,
        colour=brand.colour,
        postal_address=brand.postal_address,
        logo=brand.logo,
    )
    mailing, columns = welcome_mailing(
        mailing_list, "https://lists.contoso.example", DATE, language, own
    )
    assert not columns.all
    return mailing.mail(recipient())


def _each_block() -> Mapping[str, str]:
    """Return a source for each kind of block, with some words before it."""
    document = json.loads(EVERY_BLOCK)
    hello = {"type": "text", "html": HELLO}
    return {
        f"{block['type']} {number}": json.dumps({**document, "blocks": [hello, block]})
        for number, block in enumerate(document["blocks"])
    }


def _compiled(source: str) -> Compiled:
    return compile_source(source, MessageFormat.BLOCKS, BRAND)


def _email(compiled: Compiled, attachments: tuple[AttachedFile, ...] = ()) -> bytes:
    assert not compiled.errors
    return compile_mailing(
        ref=MessageRef("638987654321098765"),
        subject=SUBJECT,
        html=compiled.html,
        text=compiled.text,
        list_name=ListName("contoso1"),
        description=BRAND.name,
        from_address=Address("news@contoso.example"),
        base_url="https://lists.contoso.example",
        date=DATE,
        postal_address=BRAND.postal_address,
        preheader="The last apples are in, and the greenhouse is warm.",
        attachments=attachments,
    ).mail(recipient())
