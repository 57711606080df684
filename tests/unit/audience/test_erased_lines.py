"""What is kept of an import loses the lines about a person, and no others."""

import csv
import io

import pytest

from postroom.domain.audience.addresses import address_key, parse_address
from postroom.services.audience.files.import_report import ImportReport, RejectedLine
from postroom.services.audience.files.runs.erased_lines import (
    ERASED,
    Mentions,
    lines_without,
    report_without,
)

OF_ANN = Mentions(
    [address_key(parse_address(each)) for each in ("Ann@B.org", "ann@bücher.example")]
)


@pytest.mark.parametrize(
    "text",
    ["ann@b.org", "ANN@b.Org", "<ann@b.org>: no mailbox", "ann@b.org.", "Ann@Bücher.example"],
)
def test_an_address_is_found_in_any_spelling(text: str) -> None:
    assert OF_ANN(text)


@pytest.mark.parametrize("text", ["", "joann@b.org", "ann@b.organic", "ann.b.org", "not-ann@b.org"])
def test_other_addresses_that_contain_it_stay(text: str) -> None:
    assert not OF_ANN(text)


def test_rows_and_lines_lose_everything_but_their_number() -> None:
    report = ImportReport(
        rejected=2,
        sample=[["Ann Lee", "ann@b.org"], ["Bob", "bob@b.org"]],
        errors=[RejectedLine(2, "ann@b.org", "age: 'old'"), RejectedLine(3, "bob@b.org", "age")],
    )
    after = report_without(report, OF_ANN)
    assert after.sample == [[ERASED, ERASED], ["Bob", "bob@b.org"]]
    assert after.errors == [RejectedLine(2, ERASED, ERASED), report.errors[1]]
    assert after.rejected == 2


def test_a_file_of_rejected_lines_is_only_rewritten_if_it_names_the_person() -> None:
    header, bob = ["line", "email", "reason"], ["3", "bob@b.org", 'a "quoted"\r\nreason']
    rows = [header, ["2", "=ann", "unknown status of ann@b.org"], bob]
    written = io.StringIO(newline="")
    csv.writer(written).writerows(rows)
    after = lines_without(io.BytesIO(written.getvalue().encode()), OF_ANN)
    assert after is not None
    with after:
        after.seek(0)
        assert list(csv.reader(after)) == [header, ["2", ERASED, ERASED], bob]
    others = io.StringIO(newline="")
    csv.writer(others).writerows([header, bob])
    assert lines_without(io.BytesIO(others.getvalue().encode()), OF_ANN) is None
