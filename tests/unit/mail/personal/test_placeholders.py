"""An email as text with placeholders: filled in by a relay, it says the same as ours."""

import html

import pytest

from postroom.domain.errors import Invalid
from postroom.mail.mailing import Recipient, SplicedMailing
from postroom.transport.http.provider import TemplatedMailing
from tests.unit.mail.mailings import GUID, LEAVE, URL, confirmation, mailing, recipient
from tests.unit.mail.strict import bodies, parse, read_headers, without_frame

HTML = f"<p>Hello {{{{ email }}}}, <a href='{LEAVE}'>bye</a> — {{{{ list_description }}}}</p>"
TEXT = f"Hello {{{{ email }}}}, {LEAVE}\n.dot\nFrom here – to there {'long ' * 50}"


def templated(**given: str) -> SplicedMailing:
    made = mailing(**{"html": HTML, "text": TEXT, **given})  # type: ignore[arg-type]
    assert isinstance(made, SplicedMailing)
    return made


def filled(made: SplicedMailing, text: str, to: Recipient) -> str:
    for placeholder, value in made.values(to).items():
        text = text.replace(placeholder, value)
    return text


@pytest.mark.parametrize(
    "address", ["anna@example.org", "o'brien&co@example.org", "zoë@exämple.org"]
)
def test_both_bodies_say_the_same_as_the_email_that_we_compose_ourselves(address: str) -> None:
    made, to = templated(), recipient(address)
    ours = bodies(parse(made.mail(to), smtputf8=not address.isascii()))
    parts = made.parts()
    assert filled(made, parts.text, to) == ours["text/plain"]
    assert without_frame(filled(made, parts.html, to)) == ours["text/html"]
    assert html.escape(address) in filled(made, parts.html, to)


def test_the_subject_may_have_the_address() -> None:
    made = templated(subject="For {{ email }}: {{ list_description }}")
    assert filled(made, made.parts().subject, recipient()) == "For anna@example.org: Contoso news"


def test_the_headers_are_those_of_the_email_that_we_compose_ourselves() -> None:
    made, to = templated(description="Нов́ости Contoso, еженедельные и очень подробные"), recipient()
    ours = read_headers(made.mail(to))
    theirs = made.headers(to)
    assert set(theirs) == {"List-Id", "List-Unsubscribe", "List-Unsubscribe-Post", "Feedback-ID"}
    for name, value in theirs.items():
        assert value.encode() == ours[name.lower()].replace(b"\r\n", b"")
        assert value.isascii()
        assert value.isprintable()
    assert theirs["List-Unsubscribe"] == f"<{URL}>"
    assert theirs["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert set(made.parts().headers) == {"List-Id", "List-Unsubscribe-Post", "Feedback-ID"}
    assert made.parts().from_name.startswith("Нов́ости")


def test_a_mailing_is_what_sendgrid_wants() -> None:
    assert isinstance(templated(), TemplatedMailing)
    assert templated(html="").parts().html == ""
    assert isinstance(confirmation(), TemplatedMailing)


def test_a_confirmation_has_its_link_and_header_but_no_unsubscribe_link() -> None:
    made = confirmation()
    assert isinstance(made, SplicedMailing)
    assert made.headers(recipient()) == {"Auto-Submitted": "auto-generated"}
    text = filled(made, made.parts().text, recipient())
    assert f"https://lists.example.com/confirm?id={GUID}&listName=contoso1" in text


def test_no_two_mailings_have_the_same_placeholders() -> None:
    assert not set(templated().values(recipient())) & set(templated().values(recipient()))


def test_an_identifier_of_another_form_is_refused() -> None:
    for wrong in ("", "a b", 'x"><script>', "x" * 65):
        with pytest.raises(Invalid):
            templated().values(recipient(guid=wrong))
        with pytest.raises(Invalid):
            templated().headers(recipient(guid=wrong))
