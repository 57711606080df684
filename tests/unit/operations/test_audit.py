"""An audit that was not made is never taken for a good one."""

import json

from scripts.audit import CLEAN, NOT_AUDITED, VULNERABLE, verdict

FINE = {"name": "uvicorn", "version": "0.54.0", "vulns": []}
KNOWN = {"id": "GHSA-xxxx", "fix_versions": ["3.1.7"], "description": "…"}


def output(*dependencies: object) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


def test_no_findings_mean_that_all_is_well() -> None:
    clean = "No known vulnerability in any of the packages (1 audited)."
    assert verdict(output(FINE), "") == (CLEAN, clean)


def test_a_vulnerability_is_named_with_the_version_that_fixes_it() -> None:
    status, text = verdict(output(FINE, {"name": "jinja2", "version": "3.1", "vulns": [KNOWN]}), "")
    assert status == VULNERABLE
    assert "jinja2 3.1: GHSA-xxxx, fixed in 3.1.7" in text


def test_without_the_advisory_database_it_says_that_nothing_was_audited() -> None:
    traceback = "Traceback (most recent call last):\n…\nConnectionError: Max retries exceeded"
    unknown = {"name": "uvicorn", "skip_reason": "Dependency not found on PyPI"}
    for outputs in (("", traceback), (output(FINE, unknown), ""), (output(), ""), ("{}", "")):
        status, text = verdict(*outputs)
        assert status == NOT_AUDITED
        assert "The advisory database (api.osv.dev) cannot be reached: nothing was audited." in text
    assert "pip-audit said: ConnectionError: Max retries exceeded" in verdict("", traceback).text
