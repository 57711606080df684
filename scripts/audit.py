"""List what a deployment consists of, and search for known vulnerabilities: `make audit`.

Writes a bill of materials in CycloneDX's format to build/postroom.cdx.json, and asks the advisory
database of OSV about each package of requirements/run.txt. Exit status 0: no known vulnerability.
1: at least one. 2: the audit was not possible, which never counts as a success.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
BILL = ROOT / "build/postroom.cdx.json"
LOCKED = ROOT / "requirements/run.txt"
CLEAN, VULNERABLE, NOT_AUDITED = 0, 1, 2

_UNREACHABLE = """\
The advisory database (api.osv.dev) cannot be reached: nothing was audited.
Run `make audit` on a machine with access to it, or upload the bill of materials above to a scanner
that has the advisories, such as Dependency-Track or Trivy."""


class Verdict(NamedTuple):
    """The exit status, and the text to print."""

    status: int
    text: str


def verdict(output: str, errors: str) -> Verdict:
    """Read what pip-audit printed (`--format json`)."""
    try:
        found: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = errors.strip().rpartition("\n")[2][:300]
        return Verdict(NOT_AUDITED, f"{_UNREACHABLE}\npip-audit said: {last}")
    skipped = [each["name"] for each in found if "skip_reason" in each]
    if skipped or not found:
        return Verdict(NOT_AUDITED, f"{_UNREACHABLE}\nNot audited: {', '.join(skipped) or 'all'}.")
    lines = [
        f"{each['name']} {each['version']}: {known['id']}, fixed in"
        f" {', '.join(known['fix_versions']) or 'no version yet'}"
        for each in found
        for known in each["vulns"]
    ]
    if lines:
        return Verdict(VULNERABLE, "\n".join(["Known vulnerabilities:", *lines]))
    return Verdict(CLEAN, f"No known vulnerability in any of the packages ({len(found)} audited).")


def write_bill(tools: Path) -> int:
    """Write the bill of materials; return how many components it lists."""
    BILL.parent.mkdir(exist_ok=True)
    subprocess.run(
        [
            tools / "cyclonedx-py", "requirements", LOCKED,
            "--pyproject", ROOT / "pyproject.toml", "--mc-type", "application",
            "--output-reproducible", "--of", "JSON", "-o", BILL,
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return len(json.loads(BILL.read_text())["components"])


def main(tools: Path) -> int:
    print(f"{write_bill(tools)} components are listed in {BILL.relative_to(ROOT)}.")
    asked = subprocess.run(
        [
            tools / "pip-audit", "--requirement", LOCKED, "--require-hashes", "--disable-pip",
            "--vulnerability-service", "osv", "--format", "json", "--progress-spinner", "off",
        ],
        check=False,
        capture_output=True,
        text=True,
    )  # fmt: skip
    status, text = verdict(asked.stdout, asked.stderr)
    print(text, file=sys.stderr if status else sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
