"""Attached files through the API: sent as they are, kept by their hash, refused with a reason."""

import base64
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from postroom.mail.mailing import Recipient
from postroom.sender.mailings import Mailings
from postroom.wiring import Services
from tests.integration.usecases.pages import fan_out_whole
from tests.services.api_server import ApiServer, serving_api
from tests.unit.mail.mailings import recipient
from tests.unit.mail.strict import parse

PDF = b"%PDF-1.7 \xe2\xe3\xcf\xd3" * 100


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    with serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server:
        server.run(lambda s: s.lists.create("news", "The news", "news@contoso.com"))
        server.run(lambda s: s.subscriptions.add("news", "ann@example.com", verified=True))
        yield server


@pytest.fixture
def client(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


def file(name: str, content: bytes = PDF) -> dict[str, str]:
    return {"name": name, "content": base64.b64encode(content).decode()}


def message(**fields: object) -> dict[str, object]:
    return {"list": "news", "subject": "Hi", "html": "<p>Hi</p>", **fields}


async def sent(services: Services, ref: str) -> list[tuple[str | None, bytes]]:
    """Return the files of the email that a sender composes."""
    planned = await fan_out_whole(services.store, ref)
    mailing = await Mailings(services, "https://lists.contoso.com").mailing(planned)
    who: Recipient = recipient()
    return [
        (part.get_filename(), bytes(part.get_payload(decode=True) or b""))
        for part in parse(mailing.mail(who)).iter_attachments()
    ]


def test_files_of_a_message_are_sent(api: ApiServer, client: httpx2.Client) -> None:
    made = client.post("/messages", json=message(attachments=[file("Plan für Ännä.pdf")]))
    assert made.status_code == 201, made.text
    [described] = made.json()["attachments"]
    assert described["name"] == "Plan für Ännä.pdf"
    assert (described["type"], described["size"]) == ("application/pdf", len(PDF))
    ref = made.json()["ref"]
    assert api.run(lambda s: sent(s, ref)) == [("Plan für Ännä.pdf", PDF)]


def test_a_draft_keeps_gets_and_loses_files(api: ApiServer, client: httpx2.Client) -> None:
    draft = client.post("/messages", json=message(draft=True, attachments=[file("a.pdf")])).json()
    place = f"/messages/{draft['ref']}"
    kept = {"hash": draft["attachments"][0]["hash"]}
    more = client.patch(place, json={"attachments": [kept, file("b.csv", b"a,b")]})
    assert more.status_code == 200, more.text
    assert [each["name"] for each in more.json()["attachments"]] == ["a.pdf", "b.csv"]
    assert [
        each["name"] for each in client.patch(place, json={"subject": "Ho"}).json()["attachments"]
    ] == ["a.pdf", "b.csv"]

    copy = api.run(lambda s: s.composing.duplicate(draft["ref"], "ann"))
    less = client.patch(place, json={"attachments": []})
    assert less.json()["attachments"] == []
    scheduled = client.post(f"{place}/schedule", json={"scheduled_at": "2999-01-01T09:00:00Z"})
    late = client.patch(place, json={"attachments": [file("c.txt", b"late")]})
    assert scheduled.status_code == late.status_code == 200, late.text
    api.run(lambda s: s.composing.schedule(copy.ref))
    assert api.run(lambda s: sent(s, copy.ref)) == [("a.pdf", PDF), ("b.csv", b"a,b")]
    assert api.run(lambda s: sent(s, draft["ref"])) == [("c.txt", b"late")]

    found = client.patch(f"/messages/{copy.ref}", json={"attachments": [file("d.txt")]})
    assert found.status_code == 409


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([file("run.exe")], "run.exe: files that run programs"),
        ([file("a.pdf", b"MZ")], "programs are not allowed"),
        ([file("a.pdf"), file("A.PDF")], "two files of this name"),
        ([file("a.bin", b"x" * (10 * 1024 * 1024 + 1))], "must be at most 10.5 MB in total"),
        ([{"hash": "a" * 64}], "the message has no file"),
        ([{"name": "a.pdf"}], "each file needs a name and content"),
    ],
)
def test_what_may_not_be_attached_is_refused(
    client: httpx2.Client, files: list[dict[str, str]], words: str
) -> None:
    for draft in (True, False):
        refused = client.post("/messages", json=message(draft=draft, attachments=files))
        assert refused.status_code == 422, refused.text
        assert words in refused.text
        assert "attachments" in refused.text
    bad = client.post(
        "/messages", json=message(attachments=[{"name": "a", "content": "no base64"}])
    )
    assert bad.status_code == 422


def test_large_files_are_warned_about(client: httpx2.Client) -> None:
    large = [file("a.pdf", b"x" * 1024 * 1024)]
    draft = client.post("/messages", json=message(draft=True, attachments=large)).json()
    found = client.get(f"/messages/{draft['ref']}/preflight").json()["findings"]
    assert "attachments-large" in {each["code"] for each in found}


def test_files_go_with_their_message(api: ApiServer, client: httpx2.Client) -> None:
    draft = client.post("/messages", json=message(draft=True, attachments=[file("a.pdf")])).json()

    async def blobs(services: Services) -> list[str]:
        found = await services.store.container("mailbodies").list(draft["ref"])
        return [each.name for each in found.blobs if each.name.endswith(".att")]

    assert len(api.run(blobs)) == 1
    client.patch(f"/messages/{draft['ref']}", json={"subject": "Again"})
    assert len(api.run(blobs)) == 1
    assert client.delete(f"/messages/{draft['ref']}").status_code == 204
    assert api.run(blobs) == []
