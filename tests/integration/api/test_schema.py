"""The API against its own document: what that allows is accepted, what it forbids is refused."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.domain.queues.apps import parse_app
from tests.services.api_server import ApiServer, serving_api

SCHEMATHESIS = Path(sys.executable).with_name("st")
# A schema cannot say which header lines of a file are understood, which fields a list has or what a
# rule, a source in MJML or the address of a website looks like, which bytes are a picture, nor
# compare two options.
CONFIGURATION = """
hooks = "mail_serializer"

[[operations]]
include-name = "POST /media"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 403, 422]

[[operations]]
include-path-regex = "/import(/listmonk)?$"
include-method = ["POST"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 403, 404, 409, 422]

[[operations]]
include-name = "PATCH /apps/{path}/settings"
checks.positive_data_acceptance.expected-statuses = ["2xx", 403, 404, 409, 422]

[[operations]]
include-path-regex = "/lists$|/lists/.name.$|/fields$|/seg|/subscribers|/messages(/.ref.)?$|/temp"
include-method = ["POST", "PUT", "PATCH"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 403, 404, 409, 422]
"""

# It does not know how an email is written.
SERIALIZER = """
import schemathesis

@schemathesis.serializer("message/rfc822")
def write(context, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
"""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    app = parse_app({"path": "/shop", "command": ["true"]}, folder=str(tmp_path), origin="a test")
    with serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server:
        server.run(lambda s: s.apps.add(app))  # or a field that is missing would not be noticed
        yield server


@pytest.mark.timeout(600)
def test_all_checks_of_schemathesis_pass(api: ApiServer, tmp_path: Path) -> None:
    """No fault, no answer that the document does not know, no rule that one side does not keep."""
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    (tmp_path / "mail_serializer.py").write_text(SERIALIZER)
    done = subprocess.run(
        [
            SCHEMATHESIS, "run", f"{api.url}/api/v1/openapi.json",
            "--header", f"Authorization: Bearer {api.key}",
            "--checks", "all",
            "--max-examples", "10",
            "--seed", "1",
            "--request-timeout", "60",
            "--suppress-health-check", "all",
            "--continue-on-failure",
            "--no-color",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=550,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert "Tested: 0" not in done.stdout
