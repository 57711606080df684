"""Lists, subscribers and sign-up through the API, on SQLite and on PostgreSQL."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from postroom.domain.audience.lists.lists import PROPERTIES
from postroom.domain.messages.pages import CONFIRM_QUEUE
from tests.services.api_server import ApiServer, serving_api
from tests.services.stores.postgres import PostgresServer

NAMES_OF_SIGN_UP = {"email_address": "ann@example.org", "list_name": "news"}
NEWS = {"name": "news", "description": "The news", "from_address": "news@contoso.com"}


@pytest.fixture(params=["sqlite", "postgres"])
def api(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    if request.param == "sqlite":
        with serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server:
            yield server
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.empty_database() as url, serving_api(url, tmp_path) as server:
        yield server


@pytest.fixture
def client(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        assert client.post("/lists", json=NEWS).status_code == 201
        yield client


def fields_of(response: httpx2.Response) -> list[str]:
    """The fields that a refusal names."""
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    content: dict[str, Any] = response.json()
    assert content["status"] == 422
    return [each["field"] for each in content["errors"]]


def test_a_list_is_created_read_changed_and_deleted(client: httpx2.Client) -> None:
    made = client.post("/lists", json={**NEWS, "name": "b", "from_address": "B@CONTOSO.com"})
    assert made.status_code == 201
    assert made.headers["location"] == "/api/v1/lists/b"
    assert made.json()["from_address"] == "B@contoso.com"
    assert made.headers["etag"] == f'"{made.json()["etag"]}"'
    assert client.get("/lists/b").json() == made.json()
    saved = client.patch("/lists/b", json={"description": "Other"})
    assert saved.status_code == 200
    assert (saved.json()["description"], saved.json()["from_address"]) == ("Other", "B@contoso.com")
    assert [each["name"] for each in client.get("/lists").json()["items"]] == ["b", "news"]
    assert client.delete("/lists/b").status_code == 204
    assert client.get("/lists/b").status_code == 404


def test_a_duplicate_is_409_and_a_bad_field_is_named(client: httpx2.Client) -> None:
    assert client.post("/lists", json=NEWS).status_code == 409
    assert fields_of(client.post("/lists", json={**NEWS, "name": "a/b"})) == ["name"]
    assert fields_of(client.post("/lists", json={**NEWS, "from_address": "nobody"})) == [
        "from_address"
    ]
    assert fields_of(client.post("/lists", json={**NEWS, "description": "x\r\nBcc: y"})) == [
        "description"
    ]
    assert fields_of(client.post("/lists", json={**NEWS, "colour": "red"})) == ["colour"]
    assert fields_of(client.post("/lists", json={"name": 7})) == [
        "name",
        "description",
        "from_address",
    ]
    bad = client.post("/lists/news/subscribers", json={"email": "x@y.org", "verified": "yes"})
    assert fields_of(bad) == ["verified"]


def test_a_list_has_a_language_and_a_postal_address(client: httpx2.Client) -> None:
    found = client.get("/lists/news").json()
    assert (found["language"], found["postal_address"]) == ("en", "")
    given = {"language": "ko", "postal_address": "Contoso\r\n1 Main Street "}
    made = client.post("/lists", json={**NEWS, "name": "b", **given})
    assert made.status_code == 201
    assert made.json()["language"] == "ko"
    assert made.json()["postal_address"] == "Contoso\n1 Main Street"
    saved = client.patch("/lists/b", json={"language": "fr"}).json()
    assert (saved["language"], saved["postal_address"]) == ("fr", "Contoso\n1 Main Street")
    assert client.patch("/lists/b", json={"postal_address": ""}).json()["postal_address"] == ""
    given = {"reply_to": "office@contoso.com", "headers": "X-Team:  Press"}
    saved = client.patch("/lists/b", json=given).json()
    assert (saved["reply_to"], saved["headers"]) == ("office@contoso.com", "X-Team: Press")
    assert client.patch("/lists/b", json={"reply_to": ""}).json()["reply_to"] == ""
    assert client.get("/lists/b").json()["language"] == "fr"
    for field, value in (
        ("language", "xx"),
        ("language", "fr-CA"),
        ("language", None),
        ("postal_address", "x" * 501),
        ("postal_address", "a\u0007b"),
        ("postal_address", None),
        ("reply_to", "nobody"),
        ("headers", "Bcc: eve@example.org"),
    ):
        assert fields_of(client.patch("/lists/b", json={field: value})) == [field]
    problem = client.patch("/lists/b", json={"language": "xx"}).json()["errors"][0]["problem"]
    assert "must be one of en, fr, de, ko, ru, not 'xx'" in problem


def test_a_list_has_a_brand(client: httpx2.Client) -> None:
    found = client.get("/lists/news").json()
    assert (found["colour"], found["font"], found["website"]) == ("", "sans", "")
    saved = client.patch("/lists/news", json={"colour": "2E7D32", "social_links": "x.com/a"}).json()
    assert (saved["colour"], saved["social_links"]) == ("#2e7d32", "https://x.com/a")
    for field, value in (
        ("colour", "green"),
        ("colour", " #2e7d32"),
        ("font", "comic"),
        ("website", "javascript:alert(1)"),
        ("website", "https://a.example/" + "x" * 300),
        ("social_links", "\n".join(f"https://x.com/{number}" for number in range(9))),
        ("footer_text", "x" * 501),
        ("logo", "x"),
    ):
        assert fields_of(client.patch("/lists/news", json={field: value})) == [field]


def test_every_property_of_a_list_is_set_and_changed(client: httpx2.Client) -> None:
    changed = {
        each.name: (not each.default) if each.type is bool else each.example
        for each in PROPERTIES.values()
        if each.in_api
    }
    given = client.post("/lists", json={**changed, "name": "all"})
    assert given.status_code == 201, given.text
    later = client.patch("/lists/news", json=changed).json()
    for name, value in changed.items():
        assert given.json()[name] == later[name] == value, name


def test_null_is_not_a_value_and_no_change_means_no_new_etag(client: httpx2.Client) -> None:
    before = client.get("/lists/news")
    for field in ("description", "from_address", "public"):
        assert fields_of(client.patch("/lists/news", json={field: None})) == [field]
    same = client.patch("/lists/news", json={}, headers={"If-Match": before.headers["etag"]})
    assert (same.status_code, same.json(), same.headers["etag"]) == (
        200,
        before.json(),
        before.headers["etag"],
    )
    assert client.patch("/lists/news", json={}, headers={"If-Match": '"x"'}).status_code == 412
    assert client.patch("/lists/no", json={}).status_code == 404

    place = "/lists/news/subscribers/a@b.org"
    added = client.post("/lists/news/subscribers", json={"email": "a@b.org"})
    for field in ("email", "verified"):
        assert fields_of(client.patch(place, json={"blocked": "x", field: None})) == [field]
    assert client.patch(place, json={}).json() == added.json()
    assert client.patch(place, json={"blocked": None}).status_code == 200


def test_a_list_cannot_be_named_like_the_page_that_creates_lists_in_the_api(
    client: httpx2.Client,
) -> None:
    assert fields_of(client.post("/lists", json={**NEWS, "name": "new"})) == ["name"]
    assert client.post("/lists", json={**NEWS, "name": "New"}).status_code == 201
    assert client.get("/lists/new").status_code == 404


@pytest.mark.parametrize("quoted", [True, False])
def test_a_stale_etag_is_412_and_changes_nothing(client: httpx2.Client, quoted: bool) -> None:
    first = client.get("/lists/news").json()["etag"]
    stale = {"If-Match": f'"{first}"' if quoted else first}
    saved = client.patch("/lists/news", json={"description": "Mine"}, headers=stale)
    assert saved.status_code == 200
    late = client.patch("/lists/news", json={"description": "Late"}, headers=stale)
    assert late.status_code == 412
    assert late.headers["content-type"] == "application/problem+json"
    assert client.delete("/lists/news", headers=stale).status_code == 412
    assert client.get("/lists/news").json()["description"] == "Mine"
    long = {"If-Match": '"' + " " * 1000 + '", ' + saved.headers["etag"]}
    assert client.patch("/lists/news", json={"description": "3"}, headers=long).status_code == 412
    assert client.patch("/lists/no", json={"description": "3"}, headers=long).status_code == 404
    one_of = {"If-Match": f'"other", W/{saved.headers["etag"]}'}
    assert client.patch("/lists/news", json={"description": "2"}, headers=one_of).status_code == 200
    assert client.delete("/lists/news", headers={"If-Match": "*"}).status_code == 204


def test_a_subscriber_from_sign_up_to_unsubscribing(client: httpx2.Client) -> None:
    added = client.post("/lists/news/subscribers", json={"email": "a/b+c@EXAMPLE.org"})
    assert added.status_code == 201
    assert added.json()["verified"] is False
    place = added.headers["location"].removeprefix("/api/v1")
    assert place == "/lists/news/subscribers/a%2Fb%2Bc@example.org"
    assert client.get(place).json() == added.json()
    again = client.post("/lists/news/subscribers", json={"email": "a/b+c@example.org"})
    assert again.status_code == 409

    stale = {"If-Match": added.headers["etag"]}
    verified = client.patch(place, json={"verified": True, "blocked": "bounced"}, headers=stale)
    assert (verified.json()["verified"], verified.json()["blocked"]) == (True, "bounced")
    assert client.patch(place, json={"verified": False}, headers=stale).status_code == 412
    assert client.delete(place, headers=stale).status_code == 412
    unblocked = client.patch(place, json={"blocked": None}).json()
    assert (unblocked["verified"], unblocked["blocked"]) == (True, None)
    moved = client.patch(place, json={"email": "new@example.org", "verified": False}).json()
    assert (moved["email"], moved["verified"]) == ("new@example.org", False)
    assert moved["guid"] == added.json()["guid"]
    assert client.get(place).status_code == 404
    assert client.delete("/lists/news/subscribers/new@example.org").status_code == 204
    assert client.delete("/lists/news/subscribers/new@example.org").status_code == 404


def test_subscribers_are_paged_filtered_and_found_by_prefix(client: httpx2.Client) -> None:
    lines = [f"{one}{n}@example.org,{'true' if n else 'false'}" for one in "ab" for n in range(3)]
    file = "\n".join(["email,verified", *lines]).encode()
    headers = {"content-type": "text/csv"}
    assert client.post("/lists/news/import", content=file, headers=headers).json()["added"] == 6
    found: list[str] = []
    after: dict[str, str] = {}
    for _ in range(10):
        page = client.get("/lists/news/subscribers", params={"limit": 2, **after}).json()
        found += [each["email"] for each in page["items"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert found == [f"{one}{n}@example.org" for one in "ab" for n in range(3)]
    some = client.get("/lists/news/subscribers", params={"verified": "true", "prefix": "b"}).json()
    assert [each["email"] for each in some["items"]] == ["b1@example.org", "b2@example.org"]


def test_import_counts_and_says_why_a_line_was_rejected(client: httpx2.Client) -> None:
    client.post("/lists/news/subscribers", json={"email": "old@example.org"})
    file = "email,verified,name\nold@example.org,true,x\nnew@example.org,,\nnobody,true,\n"
    report = client.post(
        "/lists/news/import", content=file.encode(), headers={"content-type": "text/csv"}
    )
    assert report.status_code == 200, report.text
    result = report.json()
    assert (result["added"], result["updated"], result["rejected"]) == (1, 1, 1)
    assert result["ignored_columns"] == ["name"]
    [rejected] = result["errors"]
    assert (rejected["line"], rejected["email"]) == (4, "nobody")
    assert rejected["reason"]


def test_an_import_leaves_out_people_who_unsubscribed_by_default(
    api: ApiServer, client: httpx2.Client
) -> None:
    body = {"email": "ann@example.org", "verified": True}
    guid = client.post("/lists/news/subscribers", json=body).json()["guid"]
    assert api.run(lambda s: s.subscriptions.unsubscribe("news", guid)) is not None
    file, headers = b"E-Mail\nann@example.org\n", {"content-type": "text/csv"}
    result = client.post("/lists/news/import", content=file, headers=headers).json()
    assert (result["added"], result["rejected"]) == (0, 1)
    assert result["errors"][0]["reason"].startswith("unsubscribed on ")
    said = {"even_unsubscribed": "true"}
    result = client.post("/lists/news/import", content=file, headers=headers, params=said).json()
    assert (result["added"], result["rejected"]) == (1, 0)


def test_an_address_is_found_whatever_its_case(client: httpx2.Client) -> None:
    made = client.post("/lists/news/subscribers", json={"email": "Zoe.Lee@Example.org"})
    assert made.json()["email"] == "Zoe.Lee@example.org"
    again = client.post("/lists/news/subscribers", json={"email": "zoe.lee@example.org"})
    assert again.status_code == 409
    for spelling in ("zoe.lee@example.org", "ZOE.LEE@EXAMPLE.ORG"):
        found = client.get(f"/lists/news/subscribers/{spelling}")
        assert found.json()["email"] == "Zoe.Lee@example.org", "the spelling that was given"
    for query in ({"q": "E.LEE@"}, {"prefix": "ZOE."}, {"q": "lee", "verified": "false"}):
        items = client.get("/lists/news/subscribers", params=query).json()["items"]
        assert [each["email"] for each in items] == ["Zoe.Lee@example.org"], query
    assert client.get("/lists/news/subscribers", params={"q": "nobody"}).json()["items"] == []
    spelled = client.patch(
        "/lists/news/subscribers/zoe.lee@example.org",
        json={"email": "zoe.lee@example.org", "verified": True},
    )
    assert spelled.json()["email"] == "zoe.lee@example.org"
    assert client.delete("/lists/news/subscribers/Zoe.LEE@example.org").status_code == 204


def test_columns_and_dates_are_read_as_the_call_says(client: httpx2.Client) -> None:
    file = b"Wer,Geburtstag,a=b,Rest\nann@example.org,2/3/1990,7,x\n"
    headers = {"content-type": "text/csv"}
    chosen = ["Wer=address", "Geburtstag=new:date", "a=b=new:integer"]
    params = {"column": chosen, "date_order": "day_first"}
    result = client.post("/lists/news/import", content=file, headers=headers, params=params)
    assert result.json()["created_fields"] == ["geburtstag", "a_b"], result.text
    assert result.json()["ignored_columns"] == ["Rest"]
    found = client.get("/lists/news/subscribers/ann@example.org").json()
    assert found["attributes"] == {"geburtstag": "1990-03-02", "a_b": 7}
    for wrong in ({"column": "Wer"}, {"column": "Wer=x"}, {"date_order": "random"}):
        refused = client.post("/lists/news/import", content=file, headers=headers, params=wrong)
        assert refused.status_code == 422, refused.text


def test_an_import_can_be_tried_without_writing(client: httpx2.Client) -> None:
    file = b"email,status,city\nann@example.org,blocklisted,Rome\n"
    headers = {"content-type": "text/csv"}
    for params in ({"dry_run": "true"}, {}):
        result = client.post(
            "/lists/news/import", content=file, headers=headers, params=params
        ).json()
        assert result["dry_run"] is bool(params)
        assert (result["added"], result["updated"], result["rejected"], result["blocked"]) == (
            1,
            0,
            0,
            1,
        )
        assert result["ignored_columns"] == ["city"]
        assert result["columns"][1] == {"name": "status", "meaning": "status", "field": None}
        found = client.get("/lists/news/subscribers/ANN@example.org")
        assert found.status_code == (404 if params else 200)
    blocked = client.get("/lists/news/subscribers/ann@example.org").json()
    assert blocked["blocked"] == "suppressed: blocklisted in the imported file"


def test_an_import_fills_fields_and_an_export_has_them(client: httpx2.Client) -> None:
    label = {"en": "City", "de": "Stadt"}
    fields = client.put("/lists/news/fields", json=[{"name": "city", "label": label}])
    assert fields.json()[0]["label"] == label
    file = b"email,Stadt,age\nann@example.org,Bern,30\nbob@example.org,Ulm,\n"
    headers = {"content-type": "text/csv"}

    def take(**params: str) -> dict[str, Any]:
        found = client.post("/lists/news/import", content=file, headers=headers, params=params)
        assert found.status_code == 200, found.text
        return dict(found.json())

    first = take()
    assert (first["added"], first["ignored_columns"]) == (2, ["age"])
    assert first["columns"][1] == {"name": "Stadt", "meaning": "field", "field": "city"}
    client.patch("/lists/news/subscribers/ann@example.org", json={"attributes": {"city": "Rome"}})
    assert take(existing="fill_gaps", create_fields="true")["created_fields"] == ["age"]
    ann = client.get("/lists/news/subscribers/ann@example.org").json()
    assert ann["attributes"] == {"city": "Rome", "age": "30"}
    take(existing="overwrite")
    wrong = client.post("/lists/news/import?existing=maybe", content=file, headers=headers)
    assert wrong.status_code == 422
    client.post("/lists/news/segments", json={"name": "bern", "rule": 'city = "Bern"'})
    rows = client.get("/lists/news/export", params={"segment": "bern"}).text.splitlines()
    assert rows[0].endswith(",city,age")
    assert [row.split(",")[0] for row in rows[1:]] == ["ann@example.org"]
    assert client.get("/lists/news/export?segment=nowhere").status_code == 404


def test_import_refuses_what_is_not_csv(client: httpx2.Client) -> None:
    json = client.post("/lists/news/import", json={"email": "x@y.org"})
    assert json.status_code == 415
    headers = {"content-type": "text/csv"}
    assert fields_of(client.post("/lists/news/import", content=b"", headers=headers)) == ["file"]
    latin = b"email\nj\xf6rg@example.org\n"
    refused = client.post("/lists/news/import", content=latin, headers=headers)
    assert fields_of(refused) == ["file"]
    assert "windows-1252" in refused.text
    assert "--encoding" not in refused.text
    assert client.post("/lists/nope/import", content=b"email", headers=headers).status_code == 404
    for charset in ("utf-7", "punycode", "unicode_escape"):
        odd = {"content-type": f"text/csv; charset={charset}"}
        sent = client.post("/lists/news/import", content=b"email,+2AA-\na@b.org,\n", headers=odd)
        assert fields_of(sent) == ["encoding"]
    assert client.get("/lists/news/subscribers").json()["items"] == []
    said = {"content-type": "text/csv; charset=iso-8859-1"}
    assert client.post("/lists/news/import", content=latin, headers=said).json()["added"] == 1


def test_export_streams_the_list_safe_from_formulas(client: httpx2.Client) -> None:
    for email in ("=cmd@example.org", "ann@example.org"):
        client.post("/lists/news/subscribers", json={"email": email, "verified": True})
    with client.stream("GET", "/lists/news/export") as response:
        assert response.headers["content-type"].startswith("text/csv")
        assert 'filename="news.csv"' in response.headers["content-disposition"]
        text = response.read().decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["email"] for row in rows] == ["'=cmd@example.org", "ann@example.org"]
    assert client.get("/lists/nope/export").status_code == 404


def test_sign_up_asks_for_confirmation_unless_verified_already(
    api: ApiServer, client: httpx2.Client
) -> None:
    body = {"email_address": "ann@example.org", "list_name": "news", "language": "fr"}
    with api.client(api.key_for("subscribe")) as site:
        assert site.post("/subscribe", json=body).status_code == 202
        client.patch("/lists/news/subscribers/ann@example.org", json={"verified": True})
        done = site.post("/subscribe", json=body)
        assert (done.status_code, done.json()["verified"]) == (200, True)
        assert site.post("/subscribe", json={**body, "list_name": "nope"}).status_code == 404
        assert fields_of(site.post("/subscribe", json={**body, "email_address": "x"})) == [
            "email_address"
        ]
        same = {"email": "ann@example.org", "list": "news"}
        also = site.post("/subscribe", json=same)
        assert (also.status_code, also.json()) == (
            200,
            {**same, "verified": True, **NAMES_OF_SIGN_UP},
        )
        assert fields_of(site.post("/subscribe", json={**same, "email": "x"})) == ["email"]
        assert fields_of(site.post("/subscribe", json={**same, "list_name": "news"})) == ["list"]
        assert site.get("/lists").status_code == 403
    waiting = api.run(lambda s: s.store.queue(CONFIRM_QUEUE).peek(32))
    assert len(waiting) == 1


def test_a_sign_up_fills_in_public_fields_only(api: ApiServer, client: httpx2.Client) -> None:
    fields = [
        {"name": "city", "type": "text", "public": True, "required": True},
        {"name": "score", "type": "integer"},
    ]
    assert client.put("/lists/news/fields", json=fields).status_code == 200
    body = {"email": "eve@example.org", "list": "news"}
    with api.client(api.key_for("subscribe")) as site:
        for attributes, problem in (
            ({}, "attributes.city"),
            ({"city": 5}, "attributes.city"),
            ({"city": "Bern", "score": 1}, "attributes.score"),
            ({"city": "Bern", "other": 1}, "attributes.other"),
        ):
            refused = site.post("/subscribe", json={**body, "attributes": attributes})
            assert fields_of(refused) == [problem]
        right = {**body, "attributes": {"city": "Bern", "first_name": "Eve"}}
        assert site.post("/subscribe", json=right).status_code == 202
    found = client.get("/lists/news/subscribers/eve@example.org").json()
    assert found["attributes"] == right["attributes"]
    assert (found["verified"], found["paused_until"]) == (False, None)


def test_only_keys_with_the_scope_subscribers_see_guids(
    api: ApiServer, client: httpx2.Client
) -> None:
    assert client.post("/lists/news/subscribers", json={"email": "ann@a.org"}).json()["guid"]
    with api.client(api.key_for("read")) as reader:
        for query in ("", "?q=nn", "?prefix=a", "/ann@a.org"):
            found = reader.get(f"/lists/news/subscribers{query}").json()
            [each] = found.get("items", [found])
            assert each["guid"] is None, query


def test_a_list_that_a_message_needs_is_not_deleted(client: httpx2.Client) -> None:
    message = {"list": "news", "subject": "Hi", "text": "x", "scheduled_at": "2999-01-01T00:00Z"}
    made = client.post("/messages", json=message)
    assert made.status_code == 201, made.text
    assert client.delete("/lists/news").status_code == 409
    assert client.delete(f"/messages/{made.json()['ref']}").status_code == 204
    assert client.delete("/lists/news").status_code == 204


def test_a_file_in_utf_16_without_its_mark_is_422(client: httpx2.Client) -> None:
    data = "email\nann@example.org\n".encode("utf-16-le")
    place = "/lists/news/import"
    refused = client.post(place, content=data, headers={"Content-Type": "text/csv; charset=utf-16"})
    assert fields_of(refused) == ["file"]
    assert "has no byte-order mark" in refused.json()["detail"]
    named = {"Content-Type": "text/csv; charset=utf-16-le"}
    assert client.post(place, content=data, headers=named).json()["added"] == 1


def test_a_client_that_has_the_current_version_gets_304(client: httpx2.Client) -> None:
    client.post("/lists/news/subscribers", json={"email": "a@b.org"})
    for place, change in (
        ("/lists/news", {"description": "Other"}),
        ("/lists/news/subscribers/a@b.org", {"verified": True}),
    ):
        etag = client.get(place).headers["etag"]
        for known in (etag, f"W/{etag}", f'"x", {etag}', "*"):
            same = client.get(place, headers={"If-None-Match": known})
            assert (same.status_code, same.content) == (304, b""), known
            assert same.headers["etag"] == etag
            assert client.head(place, headers={"If-None-Match": known}).status_code == 304
        assert client.patch(place, json={}, headers={"If-None-Match": etag}).status_code == 200
        client.patch(place, json=change)
        changed = client.get(place, headers={"If-None-Match": etag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != etag
    assert client.get("/lists/no", headers={"If-None-Match": "*"}).status_code == 404


def test_the_emails_of_a_list_are_read_written_and_reset(client: httpx2.Client) -> None:
    emails = client.get("/lists/news/emails").json()
    assert len(emails) == 10
    assert not any(each["own"] for each in emails)
    place = "/lists/news/emails/confirmation/de"
    refused = client.put(place, json={"subject": "Hallo", "text": "Hallo"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "text"
    mine = {"subject": "Hallo", "text": "[Ja]({{ confirm_url }})"}
    written = client.put(place, json=mine)
    assert written.status_code == 200, written.text
    assert written.json() == {"kind": "confirmation", "language": "de", "own": True, **mine}
    assert written.json() in client.get("/lists/news/emails").json()
    assert client.delete(place).json()["own"] is False
    assert client.put("/lists/news/emails/other/de", json=mine).status_code == 404
    assert client.patch("/lists/news", json={"welcome_email": True}).json()["welcome_email"] is True


def test_the_domain_of_a_list_is_checked(client: httpx2.Client) -> None:
    client.patch("/lists/news", json={"from_address": "news@contoso.example"})
    checked = client.get("/lists/news/domain-check").json()
    assert (checked["domain"], checked["findings"]) == ("contoso.example", [])
    assert (
        checked["problem"] == "contoso.example is reserved for examples: nobody can send from it."
    )
    assert client.get("/lists/nope/domain-check").status_code == 404
