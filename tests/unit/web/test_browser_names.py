import pytest

from postroom.web.rendering.templating import browser_name

CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/142.0 Safari/537.36"


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (CHROME, "Chrome on Linux"),
        (CHROME.replace("X11; Linux x86_64", "Windows NT 10.0") + " Edg/142.0", "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 14; rv:140) Firefox/140.0", "Firefox on macOS"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1",
         "Safari on iPhone"),
        ("curl/8.9", "curl/8.9"),
        ("", "Unknown"),
    ],
)  # fmt: skip
def test_a_browser_is_called_what_people_call_it(header: str, name: str) -> None:
    assert browser_name(header) == name
