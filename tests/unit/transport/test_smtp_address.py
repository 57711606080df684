"""Transport URLs: what they mean, and errors that do not repeat a password."""

import pytest

from postroom.domain.errors import Invalid
from postroom.transport.smtp.servers import SmtpServer, Tls, parse_servers


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mx.test", SmtpServer("mx.test", 25)),
        ("smtp://mx.test:2525/", SmtpServer("mx.test", 2525)),
        ("smtps://mx.test", SmtpServer("mx.test", 465, Tls.IMPLICIT)),
        ("smtp://mx.test?tls=required", SmtpServer("mx.test", 25, Tls.REQUIRED)),
        ("smtp://mx.test?tls=off", SmtpServer("mx.test", 25, Tls.OFF)),
        ("smtp://[::1]:26", SmtpServer("::1", 26)),
        (
            "smtp://me%40x.test:p%2Fa%3As%2Cs@mx.test",
            SmtpServer("mx.test", 25, username="me@x.test", password="p/a:s,s"),
        ),
        (
            "smtp://mx.test?verify=no&ca=/etc/ca.pem&ehlo=me.test",
            SmtpServer("mx.test", 25, verify=False, ca_file="/etc/ca.pem", ehlo="me.test"),
        ),
    ],
)
def test_a_url_names_a_server(url: str, server: SmtpServer) -> None:
    assert parse_servers(url) == (server,)


def test_several_servers_stand_in_order() -> None:
    found = parse_servers("smtp://a.test, smtps://b.test:466,smtp://u:p%2Cq@c.test")

    assert [str(each) for each in found] == ["a.test:25", "b.test:466", "c.test:25"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "smtp://",
        "smtp:mx.test",
        "http://user:geheim@mx.test",
        "smtp://user:geheim@",
        "smtp://user:geheim@mx.test:port",
        "smtp://user:geheim@mx.test:99999",
        "smtp://user:geheim@mx.test/path",
        "smtp://user:geheim@mx.test#part",
        "smtp://user:geheim@mx.test?tls=maybe",
        "smtp://user:geheim@mx.test?nonsense=1",
        "smtp://user:geheim@mx.test?verify=perhaps",
        "smtp://user:geheim@mx.test?ehlo=a%0D%0Ab",
        "smtps://user:geheim@mx.test?tls=off",
        "smtp://user@mx.test",
        "smtp://:geheim@mx.test",
        "smtp://user:gehe/im@mx.test",
        "smtp://a.test,ftp://user:geheim@b.test",
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_servers(url)

    assert "geheim" not in str(caught.value)
    assert "gehe" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_shows_a_password() -> None:
    [server] = parse_servers("smtp://user:geheim@mx.test")

    assert "geheim" not in f"{server} {server!r}"
