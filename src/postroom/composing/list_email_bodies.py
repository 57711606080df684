"""Emails that a list has reworded: Markdown becomes an email in the list's brand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from postroom.composing.markdown import markdown_to_html
from postroom.composing.protection import HiddenFields
from postroom.composing.sanitising import sanitise
from postroom.domain.audience.lists.brand import Brand
from postroom.domain.audience.lists.list_emails import ListEmail, ListEmailKind
from postroom.domain.errors import Invalid
from postroom.mail.bodies.branded_frame import BrandedFrame
from postroom.mail.bodies.plaintext import text_from_html
from postroom.mail.personal.content_conditions import MARKER
from postroom.mail.personal.field_contexts import check_places
from postroom.mail.personal.merge_fields import FIELD, OWN_RULES, FieldRule, check_fields
from postroom.mail.personal.positions import position_of

CONFIRM_URL: Final = "confirm_url"
UNCONFIRMED_RULES: Final[Mapping[str, FieldRule]] = {
    "email": FieldRule(),
    "list_description": FieldRule(),
    CONFIRM_URL: FieldRule(is_link=True),
}
"""Merge fields of the confirmation. What a stranger entered in other fields is not sent to an
address that may be someone else's."""

_IN_SUBJECT: Final = {"list_description": FieldRule()}


class ComposedListEmail(msgspec.Struct, frozen=True):
    """A list's email with its merge fields; `html` is what its frame contains."""

    subject: str
    html: str
    text: str


def rules_of(kind: ListEmailKind, rules: Mapping[str, FieldRule]) -> Mapping[str, FieldRule]:
    """Return the merge fields of a kind of email; `rules` are those of the list's messages."""
    if kind is ListEmailKind.CONFIRMATION:
        return UNCONFIRMED_RULES
    return {name: rule for name, rule in rules.items() if name != "web_url"}


def check_list_email(kind: ListEmailKind, email: ListEmail, rules: Mapping[str, FieldRule]) -> None:
    """Raise `Invalid` if a list cannot send this. `rules` are those of its messages."""
    allowed = rules_of(kind, rules)
    is_confirmation = kind is ListEmailKind.CONFIRMATION
    check_fields("subject", email.subject, _IN_SUBJECT if is_confirmation else allowed)
    check_fields("text", email.text, allowed)
    for field, text in (("subject", email.subject), ("text", email.text)):
        if marker := MARKER.search(text):
            where = position_of(text, marker.start())
            raise Invalid(field, f"{where}: conditions cannot be used in this email")
    composed = compose_list_email(email, Brand())
    check_places(composed.html, {**OWN_RULES, **allowed})
    if is_confirmation and not any(
        each[1] == CONFIRM_URL for each in FIELD.finditer(composed.html)
    ):
        advice = f"[Confirm subscription]({{{{ {CONFIRM_URL} }}}})"
        raise Invalid("text", f"must contain the link that confirms, for example {advice}")


def compose_list_email(email: ListEmail, brand: Brand) -> ComposedListEmail:
    """Return an email in a brand. Whatever is not content, such as scripts, is left out."""
    fields = HiddenFields()
    clean = sanitise(markdown_to_html(fields.hide(email.text).text)).html
    return ComposedListEmail(
        email.subject,
        fields.show(BrandedFrame(brand).styled(clean)),
        text_from_html(fields.show(clean)).rstrip("\n"),
    )
