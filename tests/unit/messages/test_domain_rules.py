"""The rules of the domain."""

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from email_validator import EmailNotValidError, validate_email
from email_validator.rfc_constants import CASE_INSENSITIVE_MAILBOX_NAMES
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.audience.addresses import Address, masked, parse_address
from postroom.domain.audience.lists.lists import (
    new_guid,
    parse_guid,
    parse_list_name,
    parse_new_list_name,
)
from postroom.domain.errors import Invalid, NotNow
from postroom.domain.messages import emails, messages
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.domain.messages.messages import (
    MessageStatus,
    check_deletable,
    check_editable,
    check_transition,
    day_of,
)
from postroom.domain.messages.pages import WorkItem, parse_work_item
from postroom.domain.messages.refs import MessageRef, new_ref, parse_ref
from postroom.domain.plain_text import one_line

# -- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("ann@example.com", "ann@example.com"),
        ("  Ann.Lee+news@EXAMPLE.Com ", "Ann.Lee+news@example.com"),
        ("ann@münchen.example.com", "ann@münchen.example.com"),
        ("ann@xn--mnchen-3ya.example.com", "ann@münchen.example.com"),
        ("o'brien@example.com", "o'brien@example.com"),
        ("a/b=c?d@example.com", "a/b=c?d@example.com"),
        ("이름@example.com", "이름@example.com"),
    ],
)
def test_an_address_has_one_spelling(given_text: str, expected: str) -> None:
    assert parse_address(given_text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ann",
        "ann@",
        "@example.com",
        "ann@example",
        "ann@@example.com",
        "ann@example..com",
        ".ann@example.com",
        "ann.@example.com",
        "ann@-example.com",
        "ann@example.com\r\nBcc: all@example.com",
        "ann\n@example.com",
        "ann\x00@example.com",
        "ann lee@example.com",
        "Ann <ann@example.com>",
        "ann@example.com,bob@example.com",
        "a" * 65 + "@example.com",
        "a@" + "b" * 250 + ".com",
        "ann@localhost",
        "ann@[127.0.0.1]",
    ],
)
def test_an_invalid_address_is_refused_with_the_field(text: str) -> None:
    with pytest.raises(Invalid) as failure:
        parse_address(text, "email_address")
    assert failure.value.field == "email_address"
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("name", CASE_INSENSITIVE_MAILBOX_NAMES)
def test_names_that_mean_the_same_everywhere_have_one_spelling(name: str) -> None:
    assert parse_address(f"{name.title()}@contoso.com") == f"{name}@contoso.com"


_special = st.builds(
    "{}@{}".format,
    st.sampled_from(["news", "News", "INFO", "news.letter", "postmaster"]),
    st.sampled_from(["contoso.example", "Contoso.Example", "contoso.test", "a.invalid", "b.local"]),
)
_likely = _special | st.from_regex(
    r"[A-Za-z0-9_+.-]{1,12}@[A-Za-z0-9.-]{1,12}\.[A-Za-z]{1,5}", fullmatch=True
)


@given(_likely)
def test_the_fast_path_agrees_with_the_full_validation(text: str) -> None:
    try:
        expected = validate_email(
            text, check_deliverability=False, test_environment=True, strict=True
        ).normalized
    except EmailNotValidError:
        with pytest.raises(Invalid):
            parse_address(text)
    else:
        assert parse_address(text) == expected


def test_a_masked_address_shows_two_characters_and_the_domain() -> None:
    assert masked(Address("annabel@example.com")) == "an*****@example.com"
    assert masked(Address("a@example.com")) == "a***@example.com"


# -- names, references, texts --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["contoso1", "A_b-c.d", "x" * 100, "1"])
def test_a_list_name_has_letters_digits_and_three_signs(name: str) -> None:
    assert parse_list_name(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "x" * 101, "a,b", ".", "..", "a\n"])
def test_another_list_name_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="list"):
        parse_list_name(name)


def test_a_list_cannot_have_the_name_of_the_page_that_creates_lists() -> None:
    with pytest.raises(Invalid, match="which is reserved"):
        parse_new_list_name("new")
    assert parse_list_name("new") == "new"  # one that is there stays within reach
    assert parse_new_list_name("news") == "news"


def test_references_are_18_digits_sort_by_time_and_differ_in_the_same_instant() -> None:
    refs = [new_ref(1_700_000_000_000 + minute * 60_000) for minute in range(100)]
    assert refs == sorted(refs)
    assert all(parse_ref(ref) == ref for ref in refs)
    same_instant = {new_ref(1_700_000_000_000) for _ in range(20)}
    assert len(same_instant) > 15
    with pytest.raises(Invalid):
        parse_ref("12345")


def test_a_guid_is_unguessable_and_read_in_any_case() -> None:
    guid = new_guid()
    assert parse_guid(guid.upper()) == guid
    assert new_guid() != guid
    with pytest.raises(Invalid):
        parse_guid("nonsense")


@pytest.mark.parametrize("bad", ["\r", "\n", "\x00", "\u2028", "\u2029", "\u202e", "\x7f", "\x85"])
def test_text_for_a_header_has_no_line_break_or_control_character(bad: str) -> None:
    with pytest.raises(Invalid, match="subject"):
        one_line("subject", f"Hello{bad}Bcc: all@example.com", longest=100)


def test_text_for_a_header_may_be_in_any_script() -> None:
    assert one_line("subject", "  Grüße 한국어 עברית 🎉 ", longest=100) == "Grüße 한국어 עברית 🎉"
    with pytest.raises(Invalid):
        one_line("subject", "   ", longest=100)
    with pytest.raises(Invalid):
        one_line("subject", "x" * 101, longest=100)


# -- states --------------------------------------------------------------------------------------


def test_every_status_has_its_transitions() -> None:
    assert messages.TRANSITIONS.keys() == set(MessageStatus)
    assert emails.TRANSITIONS.keys() == set(EmailOutcome)


@pytest.mark.parametrize("current", MessageStatus)
@pytest.mark.parametrize("to", MessageStatus)
def test_a_message_only_makes_the_transitions_of_the_table(
    current: MessageStatus, to: MessageStatus
) -> None:
    if to in messages.TRANSITIONS[current]:
        check_transition(current, to)
    else:
        with pytest.raises(NotNow, match=current):
            check_transition(current, to)


@pytest.mark.parametrize("current", EmailOutcome)
@pytest.mark.parametrize("to", EmailOutcome)
def test_an_outcome_changes_only_as_the_table_says(current: EmailOutcome, to: EmailOutcome) -> None:
    if to in emails.TRANSITIONS[current]:
        emails.check_outcome(current, to)
    else:
        with pytest.raises(NotNow, match=f"{current} cannot become {to}"):
            emails.check_outcome(current, to)


def test_no_status_is_changed_behind_the_back_of_the_table() -> None:
    source = Path(messages.__file__).parents[2]
    changed = re.compile(r"replace\([^()]*status=")
    found = [each for each in source.rglob("*.py") if changed.search(each.read_text())]
    assert found == [Path(messages.__file__)]


def test_only_a_draft_a_pending_or_a_paused_message_can_be_edited() -> None:
    editable = {MessageStatus.DRAFT, MessageStatus.PENDING, MessageStatus.PAUSED}
    for status in editable:
        check_editable(status)
    for status in set(MessageStatus) - editable:
        with pytest.raises(NotNow):
            check_editable(status)


def test_only_a_draft_or_a_pending_message_can_be_deleted() -> None:
    deletable = {MessageStatus.DRAFT, MessageStatus.PENDING}
    for status in deletable:
        check_deletable(status)
    for status in set(MessageStatus) - deletable:
        with pytest.raises(NotNow):
            check_deletable(status)


def test_the_day_of_a_message_is_in_utc() -> None:
    late = datetime(2026, 1, 1, 1, 0, tzinfo=timezone(timedelta(hours=9)))
    assert day_of(late) == "2025-12-31"
    assert day_of(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01"


@given(st.lists(st.tuples(*[st.integers(0, 100)] * 5), max_size=5))
def test_the_sum_holds_however_pages_are_added(pages: list[tuple[int, ...]]) -> None:
    counts = emails.total(
        Counts(sum(page), page[1], page[2], page[3], page[4], min(page[1], 1)) for page in pages
    )
    shown = counts.as_dict()
    assert shown["planned"] == sum(
        shown[part] for part in ("pending", "accepted", "refused", "suppressed", "in_doubt")
    )


# -- work items ----------------------------------------------------------------------------------


def test_a_work_item_names_day_message_page_and_restart() -> None:
    text = "2012-10-15,634852858215726983,000042,0"
    item = parse_work_item(text)
    assert item == WorkItem("2012-10-15", MessageRef("634852858215726983"), 42)
    assert str(item) == text
    assert parse_work_item(text[:-1] + "1").restarted


@pytest.mark.parametrize(
    "text", ["", "x", "2012-10-15,634852858215726983,42,0", "1,2,3,4", "a" * 999]
)
def test_an_invalid_work_item_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_work_item(text)
