"""MTA-STS policies, fetched from a real web server on loopback, with its own DNS."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from postroom.services.messages.domains.dns_lookups import DnsLookups
from postroom.services.messages.domains.mta_sts import StsPolicy, check_sts, parse_policy
from tests.services.dns_server import running_dns_server
from tests.services.waiting import LOOPBACK

HOST = "mta-sts.contoso.com"
ZONE = {
    "_mta-sts.contoso.com": ["v=STSv1; id=20261119"],
    f"{HOST} A": [LOOPBACK],
    "contoso.com MX": ["10 mx1.contoso.com.", "20 backup.relay.net."],
}
POLICY = "version: STSv1\r\nmode: {mode}\r\nmx: *.contoso.com\r\n{more}max_age: 604800\r\n"
BOTH = "mx: backup.relay.net\r\n"


@contextmanager
def website(folder: Path, status: int, policy: str) -> Iterator[tuple[int, ssl.SSLContext]]:
    """Serve a policy with HTTPS; yield the port, and a context that trusts the certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/.well-known/mta-sts.txt" else 404)
            self.end_headers()
            self.wfile.write(policy.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, SHA256())
    )
    pem = folder / "certificate.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(pem)
    server.socket = own.wrap_socket(server.socket, server_side=True)
    running = threading.Thread(target=server.serve_forever)
    running.start()
    try:
        yield server.server_port, ssl.create_default_context(cafile=str(pem))
    finally:
        server.shutdown()
        running.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "policy", "state", "words"),
    [
        (200, POLICY.format(mode="enforce", more=BOTH), "fine", "names all mail servers"),
        (200, POLICY.format(mode="enforce", more=""), "wrong", "does not name backup.relay.net"),
        (200, POLICY.format(mode="testing", more=""), "weak", "cannot be enforced"),
        (200, POLICY.format(mode="testing", more=BOTH), "info", "testing"),
        (200, "version: STSv1\nmode: none\nmax_age: 86400\n", "info", "its mode is none"),
        (200, "<html>Not found</html>", "weak", "version: STSv1"),
        (301, "", "weak", "responds with status 301"),
    ],
)
async def test_the_policy_is_compared_with_the_mail_servers(
    tmp_path: Path, status: int, policy: str, state: str, words: str
) -> None:
    with (
        running_dns_server(ZONE) as resolver,
        website(tmp_path, status, policy) as (port, trusting),
    ):
        dns = DnsLookups(resolver)
        record, found = await check_sts(dns, "contoso.com", lambda _: True, port, trusting)
        assert (record.kind, record.state) == ("MTA-STS", "fine")
        assert (found.kind, found.state) == ("MTA-STS policy", state)
        assert words in found.text
        _, untrusted = await check_sts(dns, "contoso.com", lambda _: True, port)
        assert (untrusted.state, "certificate" in untrusted.text) == ("weak", True)


async def test_no_private_address_is_asked_for_a_policy() -> None:
    asked: list[str] = []

    def may_try(address: str) -> bool:
        asked.append(address)
        return not ipaddress.ip_address(address).is_loopback

    with running_dns_server(ZONE) as resolver:
        _, found = await check_sts(DnsLookups(resolver), "contoso.com", may_try, 1)
    assert (found.state, asked) == ("info", [LOOPBACK])
    assert "does not have a public IP address" in found.text


def test_a_policy_is_read_as_the_standard_says() -> None:
    read = parse_policy(
        "version: STSv1\nmode: enforce\nmode: none\nmx: MX.contoso.com.\nmax_age: 1"
    )
    assert read == StsPolicy("enforce", ("mx.contoso.com",))
    wild = StsPolicy("enforce", ("*.contoso.com",))
    assert wild.covers("mx.Contoso.com.")
    assert not wild.covers("contoso.com")
    assert not wild.covers("a.b.contoso.com")
    for text, problem in (
        ("version: STSv1\nmode: strict\nmx: a\nmax_age: 1", "mode"),
        ("version: STSv1\nmode: enforce\nmx: a\nmax_age: 99999999", "max_age"),
        ("version: STSv1\nmode: enforce\nmax_age: 1", "mail server"),
    ):
        assert problem in str(parse_policy(text))
