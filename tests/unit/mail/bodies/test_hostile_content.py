"""What no email contains, regardless of who wrote its HTML."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.mail.bodies.hostile_content import hostile_content, without_hostile_content
from postroom.mail.bodies.web_addresses import is_own_machine, is_unreachable, loaded_host
from tests.unit.mail.mailings import mailing, recipient
from tests.unit.mail.strict import bodies, parse

OWN = "lists.example.com"
REMOVED = {
    "<script>alert(1)</script>": "",
    "<SCRIPT src='https://x.example/a.js'></SCRIPT >": "",
    "<script>never closed <p>": "",
    '<iframe src="https://x.example/"><p>instead</p></iframe>': "<p>instead</p>",
    '<object data="x"></object><embed src="x"><applet code="x"></applet>': "",
    '<base href="https://x.example/">': "",
    '<meta http-equiv="Refresh" content="0;url=https://x.example/">': "",
    "<img src=x onerror=alert(1)>": "<img src=x >",
    '<svg/onload="alert(1)"></svg>': "<svg/></svg>",
    '<a href=" java\tscript:alert(1)">x</a>': "<a >x</a>",
    '<a href="&#106;avascript:alert(1)">x</a>': "<a >x</a>",
    '<a href="data:text/html,x">x</a>': "<a >x</a>",
    '<img src="file:///etc/passwd">': "<img >",
    '<img src="http://127.0.0.1/a.png">': "<img >",
    '<img src="http:\\\\127.1/a.png">': "<img >",
    '<img src="//user@LOCALHOST:80/a.png">': "<img >",
    '<img src="http://2130706433/a.png">': "<img >",
    '<img src="http://[::ffff:127.0.0.1]/a.png">': "<img >",
    '<img src="http://169.254.169.254/latest">': "<img >",
    '<img srcset="https://x.example/a.png 1x, file:///etc/passwd 2x">': "<img >",
    '<td background="http://0.0.0.0/">x</td>': "<td >x</td>",
    '<link rel="stylesheet" href="http://127.0.0.1/x.css">': '<link rel="stylesheet" >',
    "<style>p { color: red } @import url(http://127.0.0.1/x.css)</style>": "",
    "<style>@im\\port 'file:///x.css'</style>": "",
    "<style>p { background: u\\72l(http://localhost/x) }</style>": "",
    '<style>p { background: image-set("http://127.0.0.1/x" 1x) }</style>': "",
    "<style>p { behavior: url(#x) }</style>": "",
    '<p style="background: ur/**/l(x); background: url(file:///x)">x</p>': "<p >x</p>",
    '<!--[if mso]><v:fill src="file:///x"/><script>1</script><![endif]-->': (
        "<!--[if mso]><v:fill /><![endif]-->"
    ),
}
KEPT = [
    "<p onclick-like>x</p>",
    '<a href="http://127.0.0.1/">not loaded, only a link</a>',
    '<a href="mailto:ann@example.com">x</a> <a href="{{ unsubscribe_url }}">x</a>',
    '<img src="https://x.example/a.png" srcset="https://x.example/b.png 2x" alt="">',
    f'<img src="https://{OWN}/media/a.png"><img src="/media/a.png"><img src="cid:a">',
    '<img src="data:image/png;base64,iVBORw0KGgo=">',
    '<img src="http://10.0.0.7/a.png">',
    "<style>@import url(https://fonts.example/a.css); p { content: 'note: x' }</style>",
    '<script type="application/ld+json">{"@type": "Event"}</script>',
    "<!-- <script>nobody sees this</script> -->",
    "<textarea><script>x</script></textarea>",
]


@pytest.mark.parametrize(("html", "left"), REMOVED.items())
def test_what_runs_or_loads_from_the_own_machine_is_removed(html: str, left: str) -> None:
    assert without_hostile_content(f"<p>a</p>{html}", OWN) == f"<p>a</p>{left}"
    sent = bodies(parse(mailing(html=f"<p>a</p>{html}").mail(recipient())))["text/html"]
    assert "alert" not in sent
    assert "127.0.0.1" not in sent
    assert "file:" not in sent


@pytest.mark.parametrize("html", KEPT)
def test_everything_else_stays_byte_for_byte(html: str) -> None:
    assert without_hostile_content(html, OWN) == html


def test_pictures_of_a_trial_on_the_own_machine_stay() -> None:
    html = '<img src="http://127.0.0.1:8420/media/a.png"><img src="http://localhost/x.png">'
    assert [each.what for each in hostile_content(html, "127.0.0.1")] == ["http://localhost/x.png"]


def test_hosts_are_read_as_browsers_read_them() -> None:
    assert loaded_host(" HTTPS:\\\\Ann:x@Example.COM.:8443/a?b") == "example.com"
    assert loaded_host("http://127%2e0.0.1/") == "127.0.0.1"
    assert loaded_host("/media/a.png") == ""
    assert loaded_host("mailto:ann@example.com") == ""
    assert not is_own_machine("127.example.com")
    assert not is_own_machine("10.0.0.7")
    assert all(map(is_unreachable, ["10.0.0.7", "192.168.1.1", "fd00::1", "nas.local"]))
    assert not is_unreachable("example.org")


@given(st.text(alphabet="<>=\"'/-! abionsrcsriptyle:\\*(){}127.0.0.1file", max_size=200))
def test_removing_ends_and_leaves_nothing_to_remove_in_tags(html: str) -> None:
    found = list(hostile_content(html, OWN))
    assert all(0 <= each.start < each.end <= len(html) for each in found)
    assert all(a.end <= b.start for a, b in pairwise(found))


@pytest.mark.parametrize(
    "html",
    ["<!--[if " * 30_000, "<style>" + "/*" * 100_000, "<style>" + "image-set(" * 20_000,
     "<p style='" + "url(" * 50_000 + "'>", "<script>" * 50_000],
)  # fmt: skip
def test_hostile_lengths_take_no_time(html: str) -> None:
    begun = time.perf_counter()
    without_hostile_content(html, OWN)
    assert time.perf_counter() - begun < 10
