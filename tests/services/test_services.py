"""The services that other tests stand on do what those tests take for granted."""

import shutil
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from email.message import EmailMessage

import psycopg
import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables.aio import TableServiceClient
from azure.storage.blob.aio import BlobServiceClient
from azure.storage.queue.aio import QueueServiceClient

from tests.services.mail.smtp_sink import SmtpSink, running_smtp_sink
from tests.services.stores.azurite import Azurite
from tests.services.stores.postgres import PostgresServer, running_postgres
from tests.services.waiting import accepts_connections, wait_until


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


def answer(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def test_postgres_answers(postgres: PostgresServer) -> None:
    assert answer(postgres.url("postgres"), "SELECT 6 * 7") == 42


def test_postgres_is_durable_where_it_is_measured() -> None:
    with running_postgres(durable=True) as server:
        url = server.url("postgres")
        assert answer(url, "SHOW fsync") == "on"
        assert answer(url, "SHOW synchronous_commit") == "on"


def test_a_new_postgres_database_is_apart_from_the_others(
    postgres: PostgresServer, database: str
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE mine ()")

    other = postgres.create_database()

    assert answer(database, "SELECT to_regclass('mine') IS NOT NULL") is True
    assert answer(other, "SELECT to_regclass('mine') IS NOT NULL") is False
    postgres.drop_database(other)


def test_postgres_sorts_text_like_a_dictionary_by_default(database: str) -> None:
    assert answer(database, "SELECT 'a' < 'B'") is True
    assert answer(database, """SELECT 'a' < 'B' COLLATE "C" """) is False


def test_postgres_takes_the_right_password(postgres: PostgresServer) -> None:
    assert answer(postgres.guarded_url("postgres"), "SELECT current_user") == "guarded"


def test_postgres_refuses_a_wrong_password(postgres: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.guarded_url("postgres", password="wrong"))


@pytest.mark.parametrize("immediate", [False, True], ids=["orderly", "crash"])
def test_postgres_keeps_what_was_committed_over_a_restart(
    postgres: PostgresServer, database: str, immediate: bool
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")

    postgres.restart(immediate=immediate)

    assert answer(database, "SELECT value FROM kept") == 7


def test_postgres_is_unreachable_while_stopped(postgres: PostgresServer) -> None:
    postgres.stop()
    try:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(postgres.url("postgres"))
    finally:
        postgres.start()


async def test_azurite_queues_give_back_what_was_put(azurite: Azurite) -> None:
    async with QueueServiceClient.from_connection_string(azurite.connection_string()) as service:
        queue = await service.create_queue("letters")
        await queue.send_message("hello")

        received = await queue.receive_message()

    assert received is not None
    assert received.content == "hello"


async def test_azurite_blobs_give_back_what_was_put(azurite: Azurite) -> None:
    async with BlobServiceClient.from_connection_string(azurite.connection_string()) as service:
        container = await service.create_container("bodies")
        await container.upload_blob("1.txt", b"hello")

        stream = await container.download_blob("1.txt")

        assert await stream.readall() == b"hello"


async def test_azurite_accounts_do_not_see_each_other(azurite: Azurite) -> None:
    one, other = (azurite.connection_string(azurite.fresh_account()) for _ in range(2))
    entity = {"PartitionKey": "p", "RowKey": "r"}

    async with TableServiceClient.from_connection_string(one) as service:
        await (await service.create_table("shared")).create_entity(entity)

    async with TableServiceClient.from_connection_string(other) as service:
        with pytest.raises(ResourceNotFoundError):
            await service.get_table_client("shared").get_entity("p", "r")


def mail() -> EmailMessage:
    made = EmailMessage()
    made["From"] = "news@contoso.example"
    made["To"] = "ann@example.org"
    made["Subject"] = "Hello"
    made.set_content("The first of many.")
    return made


def test_smtp_sink_takes_mail(smtp_sink: SmtpSink) -> None:
    with smtplib.SMTP(smtp_sink.host, smtp_sink.port, timeout=60) as client:
        refused = client.send_message(mail())

    assert refused == {}


def test_smtp_sink_keeps_emails_on_request() -> None:
    with running_smtp_sink("-d", "mail-") as sink:
        with smtplib.SMTP(sink.host, sink.port, timeout=60) as client:
            client.send_message(mail())

        [kept] = sink.folder.glob("mail-*")

        assert "The first of many." in kept.read_text()


def test_smtp_sink_refuses_a_command_on_request() -> None:
    with (
        running_smtp_sink("-f", "RCPT") as sink,
        smtplib.SMTP(sink.host, sink.port, timeout=60) as client,
        pytest.raises(smtplib.SMTPRecipientsRefused),
    ):
        client.send_message(mail())


TEST_RUN_THAT_HANGS = """
import time
from tests.services.mail.smtp_sink import running_smtp_sink
with running_smtp_sink() as sink:
    print(sink.port, sink.folder, flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs Linux's setpriv")
def test_a_killed_test_run_takes_its_services_with_it(smtp_sink: SmtpSink) -> None:
    command = [sys.executable, "-c", TEST_RUN_THAT_HANGS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as test_run:
        assert test_run.stdout is not None
        port_text, folder = test_run.stdout.readline().split()
        port = int(port_text)
        assert accepts_connections(port)

        test_run.kill()

    wait_until(lambda: not accepts_connections(port), seconds=5, what="the service is gone")
    shutil.rmtree(folder)  # nobody was left to do it
