"""The security documentation says what the code does: roles, scopes, login limits, and the evidence
for each requirement of ASVS level 1."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from postroom.domain.audience.lists.list_rights import LIST_RIGHTS
from postroom.domain.rate_limits import RateLimit
from postroom.services.accounts.api_keys import SCOPES
from postroom.services.accounts.second_factor import CODES
from postroom.services.accounts.users import ROLES, STRANGERS
from postroom.web.api.app import document
from postroom.web.app import VIEWS
from postroom.web.requests.login_limits import LoginLimits
from scripts.docs_reference import REFERENCE

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/security.md").read_text()
# Level 1 of OWASP ASVS 5.0.0: its sections, and how many of each are of this level.
SECTIONS = {
    "1.2": 5, "1.3": 2, "1.5": 1, "2.1": 1, "2.2": 2, "2.3": 1, "3.2": 2, "3.3": 1, "3.4": 2,
    "3.5": 3, "4.1": 1, "4.4": 1, "5.2": 2, "5.3": 2, "6.1": 1, "6.2": 8, "6.3": 2, "6.4": 2,
    "7.2": 4, "7.4": 2, "8.1": 1, "8.2": 2, "8.3": 1, "9.1": 3, "9.2": 1, "10.4": 5, "11.3": 2,
    "11.4": 1, "12.1": 1, "12.2": 2, "13.4": 1, "14.2": 1, "14.3": 1, "15.1": 1, "15.2": 1,
    "15.3": 1,
}  # fmt: skip
LEVEL_1 = [f"{section}.{n}" for section, most in SECTIONS.items() for n in range(1, most + 1)]
WITHOUT_A_TEST = {"15.1.1", "15.2.1"}  # what people promise, and `make audit`
ROWS = re.findall(r"^\| (\d+\.\d+\.\d+) \| (.+?) \| (.+?) \| (.+) \|$", TEXT, re.MULTILINE)
_EVIDENCE = re.compile(r"`((?:src|tests|scripts|requirements|deploy)/[^`]+|[\w.]+\.(?:md|toml))`")


def test_exactly_the_70_requirements_of_level_1_are_listed() -> None:
    assert len(LEVEL_1) == 70
    assert [number for number, *_ in ROWS] == LEVEL_1


@pytest.mark.parametrize(("number", "status", "how"), [(n, s, h) for n, _, s, h in ROWS])
def test_every_requirement_passes_with_evidence_or_has_a_reason(
    number: str, status: str, how: str
) -> None:
    assert status in ("pass", "not applicable")
    evidence = _EVIDENCE.findall(how)
    assert evidence or status == "not applicable", number
    assert evidence or len(how.split()) >= 4, f"{number} needs a reason"
    if status == "pass" and number not in WITHOUT_A_TEST:
        assert any("::test_" in each for each in evidence), f"{number} names no test"
    for each in evidence:
        path, _, test = each.partition("::")
        assert (ROOT / path).exists(), each
        assert not test or f"def {test}(" in (ROOT / path).read_text(), each


def test_roles_and_scopes_are_those_of_the_code() -> None:
    for role, meaning in ROLES.items():
        assert f"\n| {role} | {meaning} |\n" in TEXT
    for scope, meaning in SCOPES.items():
        assert f"\n| `{scope}` | {meaning} |\n" in TEXT


def test_rights_on_lists_are_those_of_the_code() -> None:
    for right, meaning in LIST_RIGHTS.items():
        assert f"\n| `{right}` | {meaning} |\n" in TEXT


def test_the_rights_of_every_page_and_call_are_in_the_reference() -> None:
    shown = REFERENCE["reference/rights.md"]()
    for page in VIEWS:
        needs = page.role or "nothing: public"
        assert f"| `{page.path}` | {', '.join(page.methods)} | {needs} |" in shown
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            assert f"| `{method.upper()} {path}` | `{operation['x-scope']}`" in shown


def test_the_login_limits_are_those_of_the_code() -> None:
    limits = LoginLimits()
    stated: list[RateLimit] = [
        limits._by_device.limit,
        limits._by_address_and_network.limit,
        limits._by_address.limit,
        STRANGERS,
        limits._by_network.limit,
        limits._by_private_network.limit,
        limits._by_session.limit,
        CODES,
    ]
    section = TEXT.partition("## Login limits")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| .+? \| (\d+) \| (\d+) s \|$", section, re.MULTILINE)
    assert [(int(burst), float(seconds)) for burst, seconds in shown] == [
        (each.burst, each.interval) for each in stated
    ]
