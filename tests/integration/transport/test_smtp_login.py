"""TLS, passwords and `check`: what works is said in one line, and so is what does not."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from postroom.transport.contract import FaultScope, ResultKind, TransportError
from postroom.transport.smtp.servers import Timeouts, parse_servers
from postroom.transport.smtp.smtp_transport import SmtpTransport
from tests.services.mail.plain_mailing import Notes, PlainMailing, kinds, recipients
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.mail.smtp_sink import running_smtp_sink
from tests.services.waiting import free_ports

pytestmark = pytest.mark.timeout(60)

ACCEPTED, HELD = ResultKind.ACCEPTED, ResultKind.HELD
HASTY = Timeouts(connect=5, greeting=2, command=2, patience=0.2, quit=0.5)
USER, PASSWORD = "me@example.com", "s/e:c@r,e t"
ENCODED = "me%40example.com:s%2Fe%3Ac%40r%2Ce%20t"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate authority, and a certificate with key for the loopback address."""
    folder = tmp_path_factory.mktemp("certificates")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    ca.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(
        str(folder / "server.pem")
    )
    return folder / "ca.pem", folder / "server.pem"


@pytest.fixture
def secured(authority: tuple[Path, Path]) -> Iterator[RecordingSmtp]:
    """Offers STARTTLS and wants a password."""
    with running_recording_smtp(certificate=authority[1], user=USER, password=PASSWORD) as server:
        yield server


def transport_to(url: str) -> SmtpTransport:
    return SmtpTransport(parse_servers(url), connections=2, timeouts=HASTY)


async def sent(url: str, *names: str) -> list[ResultKind]:
    transport = transport_to(url)
    try:
        return kinds(await transport.send(PlainMailing(), recipients(*names), Notes()))
    finally:
        await transport.close()


async def checked(url: str) -> str:
    transport = transport_to(url)
    try:
        line = await transport.check()
    finally:
        await transport.close()
    assert "\n" not in line
    assert PASSWORD not in line
    return line


async def problem(url: str) -> str:
    with pytest.raises(TransportError) as caught:
        await checked(url)
    text = str(caught.value)
    assert "\n" not in text
    assert PASSWORD not in text
    return text


async def test_starttls_and_login(secured: RecordingSmtp, authority: tuple[Path, Path]) -> None:
    url = f"smtp://{ENCODED}@127.0.0.1:{secured.port}?tls=required&ca={authority[0]}"

    line = await checked(url)

    assert "recorder.test ESMTP" in line
    assert "TLSv1.3, logged in" in line
    assert "PIPELINING" in line
    assert await sent(url, "a", "b", "c") == [ACCEPTED] * 3


async def test_starttls_is_used_where_it_is_offered(
    secured: RecordingSmtp, authority: tuple[Path, Path]
) -> None:
    url = f"smtp://{ENCODED}@127.0.0.1:{secured.port}?ca={authority[0]}"

    assert "TLSv1.3" in await checked(url)


async def test_tls_can_be_off(secured: RecordingSmtp) -> None:
    """A password goes over loopback without TLS: nobody else listens there."""
    assert "no TLS" in await checked(f"smtp://{ENCODED}@127.0.0.1:{secured.port}?tls=off")


async def test_login_with_auth_login(authority: tuple[Path, Path]) -> None:
    with running_recording_smtp(user=USER, password=PASSWORD, mechanisms="LOGIN") as server:
        url = f"smtp://{ENCODED}@127.0.0.1:{server.port}"
        assert "logged in" in await checked(url)
        assert await sent(url, "a") == [ACCEPTED]


async def test_tls_from_the_first_byte(authority: tuple[Path, Path]) -> None:
    with running_recording_smtp(certificate=authority[1], implicit_tls=True) as server:
        url = f"smtps://localhost:{server.port}?ca={authority[0]}"
        assert "TLSv1.3" in await checked(url)
        assert await sent(url, *(f"u{n}" for n in range(50))) == [ACCEPTED] * 50


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_a_certificate_from_an_unknown_authority_is_not_trusted(
    authority: tuple[Path, Path], scheme: str
) -> None:
    with running_recording_smtp(certificate=authority[1], implicit_tls=scheme == "smtps") as server:
        url = f"{scheme}://127.0.0.1:{server.port}"
        assert "certificate is not trusted" in await problem(url)
        assert await sent(url, "a") == [HELD]
        assert "certificate not verified" in await checked(f"{url}?verify=no")


async def test_a_certificate_for_another_name_is_not_trusted(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = ca.issue_cert("elsewhere.test").private_key_and_cert_chain_pem
    issued.write_to_path(str(tmp_path / "server.pem"))
    with running_recording_smtp(certificate=tmp_path / "server.pem") as server:
        text = await problem(f"smtp://127.0.0.1:{server.port}?ca={tmp_path}/ca.pem")

    assert "certificate is not trusted" in text
    assert "127.0.0.1" in text


async def test_a_file_without_certificates_is_named(secured: RecordingSmtp) -> None:
    text = await problem(f"smtp://127.0.0.1:{secured.port}?ca=/no/such.pem")

    assert "/no/such.pem" in text


async def test_a_wrong_password_holds_everything_and_refuses_nobody(secured: RecordingSmtp) -> None:
    url = f"smtp://me:wrong@127.0.0.1:{secured.port}?tls=off"

    text = await problem(url)

    assert "535 5.7.8" in text
    assert "check user and password" in text
    assert await sent(url, "a", "b") == [HELD] * 2


async def test_a_server_that_cannot_log_us_in_for_now_holds_everything(
    secured: RecordingSmtp,
) -> None:
    secured.script(Rule("AUTH", reply="454 4.7.0 temporary authentication failure"))

    assert await sent(f"smtp://{ENCODED}@127.0.0.1:{secured.port}?tls=off", "a") == [HELD]


async def test_a_missing_password_is_reported(secured: RecordingSmtp) -> None:
    assert await sent(f"smtp://127.0.0.1:{secured.port}?tls=off", "a") == [HELD]


async def test_a_login_that_is_not_offered_is_reported() -> None:
    with running_recording_smtp() as server:
        assert "does not offer AUTH" in await problem(f"smtp://me:x@127.0.0.1:{server.port}")


async def test_required_tls_that_is_not_offered() -> None:
    with running_recording_smtp() as server:
        url = f"smtp://127.0.0.1:{server.port}?tls=required"
        assert "does not offer STARTTLS" in await problem(url)
        assert await sent(url, "a") == [HELD]


async def test_starttls_that_is_refused_for_now(secured: RecordingSmtp) -> None:
    secured.script(Rule("STARTTLS", reply="454 4.7.0 TLS not available"))

    assert await sent(f"smtp://127.0.0.1:{secured.port}?verify=no", "a") == [HELD]


async def test_replies_injected_before_the_tls_handshake_are_not_trusted(
    secured: RecordingSmtp,
) -> None:
    secured.script(Rule("STARTTLS", reply="220 go\r\n250 I am the server"))

    text = await problem(f"smtp://127.0.0.1:{secured.port}?verify=no")

    assert "between STARTTLS and the handshake" in text


async def test_tls_to_a_server_without_tls_is_reported() -> None:
    with running_recording_smtp() as server:
        assert "use smtp:// here" in await problem(f"smtps://127.0.0.1:{server.port}")


async def test_no_tls_to_a_server_that_expects_it_is_recognised_soon(
    authority: tuple[Path, Path],
) -> None:
    with running_recording_smtp(certificate=authority[1], implicit_tls=True) as server:
        url = f"smtp://127.0.0.1:{server.port}"
        transport = SmtpTransport(parse_servers(url))  # with the usual patience
        started = time.monotonic()
        try:
            with pytest.raises(TransportError, match="use smtps:// here"):
                await transport.check()
            [result] = await transport.send(PlainMailing(), recipients("a"), Notes())
        finally:
            await transport.close()

    assert (result.kind, result.scope) == (HELD, FaultScope.ACCOUNT)
    assert time.monotonic() - started < 60  # a greeting may take 300


async def test_a_slow_greeting_is_waited_for() -> None:
    with running_recording_smtp(Rule("greeting", wait=0.8)) as server:
        timeouts = Timeouts(greeting=20, silence=0.2)
        transport = SmtpTransport(parse_servers(server.url), timeouts=timeouts)
        try:
            assert "no TLS" in await transport.check()
        finally:
            await transport.close()


async def test_a_refused_connection_is_reported() -> None:
    [port] = free_ports(1)

    text = await problem(f"smtp://127.0.0.1:{port}")

    assert text == f"127.0.0.1:{port} cannot be reached: Connection refused"


async def test_a_name_that_does_not_exist() -> None:
    assert "cannot be resolved" in await problem("smtp://no-such-host.invalid")


async def test_an_invalid_host_name() -> None:
    assert "not a valid host name" in await problem("smtp://a..b")
    assert await sent("smtp://a..b", "a") == [HELD]


async def test_a_server_that_says_nothing(authority: tuple[Path, Path]) -> None:
    with running_recording_smtp(Rule("greeting", wait=30)) as server:
        assert "does not respond" in await problem(server.url)


async def test_a_server_that_is_not_a_mail_server() -> None:
    with running_recording_smtp(Rule("greeting", reply="HTTP/1.1 400 Bad Request")) as server:
        assert "not a reply" in await problem(server.url)


async def test_a_server_that_does_not_want_us() -> None:
    with running_recording_smtp(Rule("greeting", reply="554 5.7.1 go away", drop=True)) as server:
        assert "554 5.7.1 go away" in await problem(server.url)


async def test_of_several_servers_one_that_works_is_enough_and_the_others_are_named() -> None:
    [port] = free_ports(1)
    with running_smtp_sink() as sink:
        line = await checked(f"smtp://127.0.0.1:{port},smtp://127.0.0.1:{sink.port}")

    assert f"127.0.0.1:{port} cannot be reached" in line
    assert "(smtp-sink ESMTP)" in line


async def test_the_ehlo_name_can_be_set() -> None:
    with running_recording_smtp(Rule("EHLO", "^me.example.com$", "250 me.example.com")) as server:
        assert "no extensions" in await checked(f"{server.url}?ehlo=me.example.com")
