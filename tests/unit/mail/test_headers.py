"""Headers: decoded by another parser they are what was put in, and never more than that."""

from email.header import decode_header, make_header

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from postroom.domain.errors import Invalid
from postroom.mail.mailing import Mailing
from postroom.services.audience.bounces.providers.provider_hooks import HOOKS
from tests.unit.mail.mailings import DATE, GUID, REF, URL, confirmation, mailing, recipient
from tests.unit.mail.strict import check_lines, parse, read_headers

HOSTILE = [
    "a\r\nBcc: x@y.org",
    "a\nBcc: x@y.org",
    "a\rBcc: x@y.org",
    "a\0b",
    "a\u2028Bcc: x@y.org",
    "a\u2029b",
    "a\x85Bcc: x@y.org",
    "a\x0bb\x0cc\x1cd",
    "half \ud83d",
    "\x7f",
]
DIFFICULT = [
    "x" * 5000,
    "word " * 1000 + "end",
    "é" * 3000,
    "😀" * 500,
    "\u202eright to left\u202c שלום",
    "مرحبا بالعالم",
    "안녕하세요 " * 30 + "!",
    "=?utf-8?q?Bcc=3A?= not encoded",
    '"quoted" \\ (comment) <a@b.org>, c@d.org; :',
    "a  b   c",
    "ends with =?",
    "Contoso, Inc.",
    "ï",
]
EXPECTED = [
    *("from", "to", "subject", "date", "message-id", "list-id", "list-unsubscribe"),
    *("list-unsubscribe-post", "feedback-id", "mime-version", "content-type"),
    "content-transfer-encoding",
]
one_liners = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), min_size=1
).filter(lambda text: bool(text.strip()) and "{{" not in text)


def display_name(raw: bytes) -> str:
    """Of the sender. The newer parser of Python 3.11 leaves gaps between the encoded words of a
    display name, so those are read by the older one."""
    written = read_headers(raw)["from"].decode("ascii").removesuffix(" <news@contoso.example>")
    if written.startswith("=?"):
        return str(make_header(decode_header(written)))
    return str(parse(raw)["from"].addresses[0].display_name)


def test_every_header_appears_once_and_in_order() -> None:
    assert list(read_headers(mailing().mail(recipient()))) == EXPECTED


def test_date_and_fixed_headers_are_exact() -> None:
    headers = read_headers(mailing().mail(recipient()))
    assert headers["date"] == b"Sun, 15 Nov 2026 07:28:20 +0000"
    assert headers["mime-version"] == b"1.0"
    assert headers["to"] == b"anna@example.org"
    assert parse(mailing().mail(recipient()))["date"].datetime == DATE


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(Invalid, match="date: must have a time zone"):
        mailing(date=DATE.replace(tzinfo=None))


def test_one_click_headers_are_exactly_those_of_rfc_8058() -> None:
    raw = mailing().mail(recipient())
    assert f"\r\nList-Unsubscribe: <{URL}>\r\n".encode() in raw
    assert b"\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n" in raw


def test_a_long_link_is_never_folded() -> None:
    base = "https://lists.example.com/" + "a" * 470
    raw = mailing(base_url=base + "/", list_name="n" * 100).mail(recipient())
    parse(raw)
    link = f"{base}/unsubscribe?id={GUID}&listName={'n' * 100}&ref={REF}"
    assert f"\r\nList-Unsubscribe: <{link}>\r\n".encode() in raw


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("field", ["subject", "description"])
def test_a_hostile_text_is_refused(field: str, hostile: str) -> None:
    with pytest.raises(Invalid) as caught:
        mailing(**{field: f"{hostile} end"})  # type: ignore[arg-type]
    assert caught.value.field == field
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("hostile", HOSTILE)
def test_other_hostile_values_are_refused_too(hostile: str) -> None:
    for field in ("ref", "list_name", "base_url", "from_address"):
        with pytest.raises(Invalid):
            mailing(**{field: hostile})  # type: ignore[arg-type]
    for wrong in (recipient(f"{hostile}@example.org"), recipient(guid=hostile)):
        with pytest.raises(Invalid):
            mailing(subject="{{ email }}", html="{{ email }}").mail(wrong)


@pytest.mark.parametrize("text", DIFFICULT)
def test_a_difficult_subject_arrives_as_it_is(text: str) -> None:
    message = parse(mailing(subject=text).mail(recipient()))
    assert message["subject"] == text


@pytest.mark.parametrize("text", DIFFICULT)
def test_a_difficult_description_arrives_as_it_is(text: str) -> None:
    for made in (mailing(description=text), confirmation(description=text)):
        raw = made.mail(recipient())
        (sender,) = parse(raw)["from"].addresses
        assert sender.addr_spec == "news@contoso.example"
        assert display_name(raw) == text


@settings(max_examples=300)
@given(one_liners)
@example("=?")
@example("a\xa0")
def test_any_line_of_text_is_a_subject_and_a_description(text: str) -> None:
    raw = mailing(subject=text, description=text).mail(recipient("a_b@example.org"))
    assert parse(raw)["subject"] == text.strip()
    assert display_name(raw) == text.strip()


@given(st.text())
def test_any_text_at_all_is_refused_or_yields_the_same_headers(text: str) -> None:
    try:
        made = mailing(subject=text, description=text)
    except Invalid:
        return
    assert list(read_headers(made.mail(recipient()))) == EXPECTED


@settings(max_examples=200)
@given(one_liners.filter(lambda text: not text.endswith("{")))
@example("_")
def test_an_address_in_the_subject_leaves_no_gap(text: str) -> None:
    subject = f"{text}{{{{ email }}}}{text}({{{{ list_description }}}})"
    for address in ("a_b@example.org", "x" * 60 + "@" + "y" * 50 + ".org", "o'brien=?@example.org"):
        message = parse(mailing(subject=subject.strip()).mail(recipient(address)))
        assert message["subject"] == f"{text.lstrip()}{address}{text}(Contoso news)"


def test_a_blank_subject_is_refused() -> None:
    with pytest.raises(Invalid, match="subject: must not be empty"):
        mailing(subject=" \u3000 ")


def test_a_list_without_a_description_is_shown_by_its_name() -> None:
    message = parse(mailing(description=" ").mail(recipient()))
    assert message["from"].addresses[0].display_name == "contoso1"


@pytest.mark.parametrize(
    ("name", "base_url", "expected"),
    [
        ("contoso1", "https://lists.example.com", b"contoso1.lists.example.com"),
        ("con.to_so-1", "https://Lists.Example.com:8443/mail", b"con.to_so-1.lists.example.com"),
        ("a..b.", "http://localhost:8000", b"a=2E=2Eb=2E.contoso.example"),
        ("contoso1", "http://127.0.0.1:8000", b"contoso1.contoso.example"),
        ("contoso1", "http://[::1]:8000", b"contoso1.contoso.example"),
        ("contoso1", "https://bücher.example:81/ä", b"contoso1.xn--bcher-kva.example"),
    ],
)
def test_the_list_id_is_valid_whatever_the_names(name: str, base_url: str, expected: bytes) -> None:
    headers = read_headers(mailing(list_name=name, base_url=base_url).mail(recipient()))
    assert headers["list-id"] == b"Contoso news <" + expected + b">"
    assert headers["list-unsubscribe"].isascii()


def test_a_list_id_stays_within_its_limit() -> None:
    base_url = "https://" + ".".join(["d" * 60] * 4)
    headers = read_headers(mailing(list_name="n" * 100, base_url=base_url).mail(recipient()))
    assert len(headers["list-id"].partition(b"<")[2]) <= 256


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "lists.example.com",
        "ftp://example.com",
        "javascript://x",
        "https://",
        "https://example.com/?a=1",
        "https://example.com/#a",
        "https://user:pw@example.com",
        "https://exa mple.com",
        "https://example.com/\r\nBcc: a",
        "https://example.com/" + "a" * 600,
    ],
)
def test_an_invalid_base_url_is_refused(base_url: str) -> None:
    with pytest.raises(Invalid, match="base_url: must look like https://"):
        mailing(base_url=base_url)


def test_the_message_id_is_stable_and_each_email_has_its_own() -> None:
    made = mailing()
    anna = made.message_id(recipient())
    assert anna == mailing().message_id(recipient())
    assert anna == made.message_id(recipient(guid="another"))  # subscribed again meanwhile
    assert anna.startswith("<638987654321098765.")
    assert anna.endswith("@contoso.example>")
    assert "anna" not in anna
    others = {
        made.message_id(recipient("bert@example.org")),
        mailing(ref="638987654321098766").message_id(recipient()),
        mailing(list_name="contoso2").message_id(recipient()),
    }
    assert len(others | {anna}) == 4


@pytest.mark.parametrize("address", ["anna@example.org", "jürgen@example.org", "a@bücher.example"])
@pytest.mark.parametrize("made", [mailing(), confirmation()], ids=["mailing", "confirmation"])
def test_the_message_id_is_the_one_in_the_mail(made: Mailing, address: str) -> None:
    raw = made.mail(recipient(address))
    headers = read_headers(raw, smtputf8=True)
    assert headers["message-id"].decode() == made.message_id(recipient(address))


def test_an_internationalised_domain_is_ascii_in_headers() -> None:
    made = mailing(from_address="news@bücher.example", text="{{ email }}")
    message = parse(made.mail(recipient("anna@bücher.example")))
    assert not made.needs_smtputf8
    assert message["from"].addresses[0].addr_spec == "news@xn--bcher-kva.example"
    assert message["to"] == "anna@xn--bcher-kva.example"
    assert made.message_id(recipient()).endswith("@xn--bcher-kva.example>")
    assert "anna@bücher.example" in message.get_content()


def test_a_local_part_beyond_ascii_is_utf8_and_says_that_it_needs_smtputf8() -> None:
    made = mailing(from_address="jürgen@contoso.example", text="{{ email }}")
    assert made.needs_smtputf8
    raw = made.mail(recipient("한글@example.org"))
    check_lines(raw)
    headers = read_headers(raw, smtputf8=True)
    assert headers["to"].decode() == "한글@example.org"
    assert headers["from"].decode() == "Contoso news <jürgen@contoso.example>"
    assert "한글@example.org" in parse(raw, smtputf8=True).get_content()


def test_feedback_id_names_message_list_and_sender() -> None:
    found = read_headers(mailing(list_name="news.de").mail(recipient()))
    assert found["feedback-id"] == b"638987654321098765:news.de:bulk:contoso-example"


def test_a_list_adds_its_own_headers() -> None:
    made = mailing(headers="X-Campaign: Frühling\nX-SES-CONFIGURATION-SET: news")
    found = parse(made.mail(recipient()))
    assert (found["X-Campaign"], found["X-SES-CONFIGURATION-SET"]) == ("Frühling", "news")


@pytest.mark.parametrize(
    "line",
    [
        "Bcc: eve@example.org",
        "X-Campaign",
        "X-Campaign: ",
        "X-: a",
        "X-A B: a",
        "X-Postroom: a",
        "X-A: 1\nx-a: 2",
        "X-A: a\u2028Bcc: eve@example.org",
        "X-A: a\x0bBcc: eve@example.org",
        "X-A: a\rBcc: eve@example.org",
        "X-A: " + "a" * 201,
        "\n".join(f"X-{number}: a" for number in range(11)),
    ],
    ids=range(12),
)
def test_no_other_header_can_be_added(line: str) -> None:
    with pytest.raises(Invalid) as refused:
        mailing(headers=line)
    assert refused.value.field == "headers"


@pytest.mark.parametrize(
    "name",
    [
        *(name for hook in HOOKS.values() for name in hook.headers),
        *("x-smtpapi", "X-MSYS-API-2", "X-Mailgun-Recipient-Variables", "X-PM-Metadata-list"),
    ],
)
def test_no_header_can_take_over_a_providers_recipients_or_our_marks(name: str) -> None:
    with pytest.raises(Invalid, match=f"headers: must not contain {name}"):
        mailing(headers=f'{name}: {{"to": ["eve@example.org"]}}')
