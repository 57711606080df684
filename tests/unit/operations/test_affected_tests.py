"""`make test-changed` runs the tests that belong to a change."""

import pytest

from scripts.affected_tests import ROOT, TESTS, affected_tests

TEXTS = {
    "tests/unit/mail/test_a.py": "from postroom.services.audience.lists import ListService\n",
    "tests/unit/mail/test_b.py": "from postroom.services.audience import imports, lists\n",
    "tests/unit/mail/test_c.py": "from postroom.services.audience import imports\n",
}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            "src/postroom/services/audience/lists.py",
            {
                "tests/unit/audience",
                "tests/integration/usecases/audience",
                "tests/web/audience",
                "tests/unit/mail/test_a.py",
                "tests/unit/mail/test_b.py",
            },
        ),
        ("src/postroom/web/api/schema.py", {"tests/integration/api", "tests/unit/web"}),
        ("src/postroom/clock.py", {"tests/unit"}),
        ("tests/unit/mail/test_a.py", {"tests/unit/mail/test_a.py"}),
        ("tests/web/world.py", {"tests/web"}),
        ("docs/store.md", {"tests/docs"}),
        ("README.md", {"tests/docs"}),
        ("bench/web.py", {"tests/unit/bench"}),
    ],
)
def test_the_tests_of_a_changed_file(changed: str, expected: set[str]) -> None:
    assert affected_tests([changed], TEXTS) == expected


def test_every_folder_of_tests_exists() -> None:
    assert [each for each in TESTS if not any(ROOT.glob(f"src/postroom/**/{each}"))] == []
    folders = {folder for folders in TESTS.values() for folder in folders}
    assert sorted(each for each in folders if not (ROOT / "tests" / each).is_dir()) == []
