"""Fields, attributes and segments through the API."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.services.api_server import serving_api

JSON = {"Content-Type": "application/json"}
NEWS = {"name": "news", "description": "The news", "from_address": "news@contoso.com"}
FIELDS = [
    {"name": "city", "type": "text", "label": "City", "required": False, "public": True,
     "default": "your city", "choices": []},
    {"name": "age", "type": "integer"},
    {"name": "plan", "type": "choice", "choices": ["free", "pro"]},
]  # fmt: skip


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx2.Client]:
    with (
        serving_api(f"sqlite:///{tmp_path}/api.db", tmp_path) as server,
        server.client() as client,
    ):
        assert client.post("/lists", json=NEWS).status_code == 201
        assert client.put("/lists/news/fields", json=FIELDS).status_code == 200
        yield client


def add(client: httpx2.Client, email: str, **attributes: object) -> None:
    body = {"email": email, "verified": True, "attributes": attributes}
    assert client.post("/lists/news/subscribers", json=body).status_code == 201


def test_fields_are_declared_and_read(client: httpx2.Client) -> None:
    read = client.get("/lists/news/fields")
    assert [each["name"] for each in read.json()] == ["city", "age", "plan"]
    assert read.json()[0]["default"] == "your city"
    assert read.json()[1]["label"] == "Age"
    headers = {"If-Match": read.headers["etag"]}
    again = client.put("/lists/news/fields", json=FIELDS[:1], headers=headers)
    assert [each["name"] for each in again.json()] == ["city"]
    stale = client.put("/lists/news/fields", json=FIELDS, headers=headers)
    assert stale.status_code == 412
    wrong = client.put("/lists/news/fields", json=[{"name": "source"}])
    assert wrong.status_code == 422
    assert wrong.json()["errors"] == [
        {"field": "fields.0.name", "problem": "source is built in: choose another name"}
    ]
    assert client.get("/lists/none/fields").status_code == 404


def test_a_declared_first_name_has_the_default_of_the_list(client: httpx2.Client) -> None:
    add(client, "ann@example.org", first_name="Ann")
    add(client, "bob@example.org")
    field = {"name": "first_name", "type": "text", "label": None, "required": False, "public": True}
    declared = client.put(
        "/lists/news/fields", json=[*FIELDS, {**field, "default": "friend", "choices": None}]
    )
    assert declared.status_code == 200, declared.text
    assert declared.json()[-1] == {
        **field, "label": "First name", "default": "friend", "choices": [], "max_length": 1000
    }  # fmt: skip
    body = {"draft": True, "list": "news", "subject": "Hi {{ first_name }}", "text": "x"}
    ref = client.post("/messages", json=body).json()["ref"]
    for email, subject in (("ann@example.org", "Hi Ann"), ("bob@example.org", "Hi friend")):
        shown = client.get(f"/messages/{ref}/render", params={"email": email})
        assert shown.json()["subject"] == subject
    for name, new in (("first_name", "given_name"), ("city", "last_name")):
        refused = client.post(f"/lists/news/fields/{name}/rename", json={"name": new})
        assert refused.status_code == 422
        assert "is built in" in refused.json()["detail"]
    # Without the declaration, the values are still there.
    assert client.put("/lists/news/fields", json=FIELDS).status_code == 200
    ann = client.get("/lists/news/subscribers/ann@example.org").json()
    assert ann["attributes"] == {"first_name": "Ann"}


def test_attributes_are_checked_and_returned(client: httpx2.Client) -> None:
    add(client, "ann@example.org", city="Bern", age=30, first_name="Ann")
    path = "/lists/news/subscribers/ann@example.org"
    assert client.get(path).json()["attributes"] == {"city": "Bern", "age": 30, "first_name": "Ann"}
    saved = client.patch(path, json={"attributes": {"age": 31, "city": None}})
    assert saved.json()["attributes"] == {"age": 31, "first_name": "Ann"}
    for attributes, field in (({"age": "x"}, "attributes.age"), ({"x": 1}, "attributes.x")):
        body = {"email": "b@example.org", "attributes": attributes}
        refused = client.post("/lists/news/subscribers", json=body)
        assert refused.status_code == 422
        assert [each["field"] for each in refused.json()["errors"]] == [field]
    assert client.get("/lists/news/subscribers/b@example.org").status_code == 404


def test_a_segment_is_created_previewed_explained_and_deleted(client: httpx2.Client) -> None:
    add(client, "ann@example.org", city="Bern", age=30)
    add(client, "bob@example.org", city="Basel", plan="pro")
    add(client, "cid@example.org")
    rule = 'city = "bern" or plan = "PRO"'
    created = client.post("/lists/news/segments", json={"name": "some", "rule": rule})
    assert created.status_code == 201
    assert created.headers["location"] == "/api/v1/lists/news/segments/some"
    path = "/lists/news/segments/some"
    assert client.get(path).json() == created.json()
    preview = client.post("/lists/news/segments/preview", json={"rule": rule})
    assert preview.json() == {"count": 2, "sample": ["ann@example.org", "bob@example.org"]}
    why = client.get(f"{path}/explain", params={"email": "bob@example.org"})
    assert why.json() == {
        "email": "bob@example.org",
        "matches": True,
        "reasons": [
            {"depth": 0, "text": rule, "holds": True, "value": None},
            {"depth": 1, "text": 'city = "bern"', "holds": False, "value": "Basel"},
            {"depth": 1, "text": 'plan = "PRO"', "holds": True, "value": "pro"},
        ],
    }
    found = client.get("/lists/news/subscribers", params={"segment": "some"}).json()
    assert [each["email"] for each in found["items"]] == ["ann@example.org", "bob@example.org"]
    assert client.put(path, json={"rule": "age > 20"}).json()["rule"] == "age > 20"
    [listed] = client.get("/lists/news/segments").json()["items"]
    assert listed["rule"] == "age > 20"
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    missing = client.get("/lists/news/subscribers", params={"segment": "some"})
    assert missing.status_code == 404


def test_a_mistake_in_a_rule_is_named_with_line_and_column(client: httpx2.Client) -> None:
    wrong = client.post("/lists/news/segments/preview", json={"rule": 'age > 3\nand ciy = "x"'})
    assert wrong.status_code == 422
    assert wrong.json()["errors"] == [
        {
            "field": "rule",
            "problem": "line 2, column 5: there is no field ciy; did you mean city?",
            "line": 2,
            "column": 5,
        }
    ]


def test_half_a_character_is_refused_by_its_field(client: httpx2.Client) -> None:
    half = {"name": "some", "rule": 'city = "\ud800"'}
    for path in ("segments", "segments/preview"):
        body = half if path == "segments" else {"rule": half["rule"]}
        refused = client.post(f"/lists/news/{path}", content=json.dumps(body), headers=JSON)
        assert refused.status_code == 422
        assert refused.json()["errors"] == [
            {"field": "rule", "problem": "contains a character that is not allowed: U+D800"}
        ]


def test_a_segment_is_replaced_with_or_without_its_name(client: httpx2.Client) -> None:
    add(client, "ann@example.org", city="Bern")
    path = "/lists/news/segments/some"
    body = {"name": "some", "rule": 'city = "Bern"'}
    assert client.post("/lists/news/segments", json=body).status_code == 201
    for change in ({**body, "rule": "age > 3"}, {"rule": "age > 4"}):
        saved = client.put(path, json=change)
        assert (saved.status_code, saved.json()["rule"]) == (200, change["rule"])
    renamed = client.put(path, json={**body, "name": "other"})
    assert renamed.status_code == 422
    assert [each["field"] for each in renamed.json()["errors"]] == ["name"]


def test_the_subscribers_of_a_segment_come_in_parts(client: httpx2.Client) -> None:
    for number in range(7):
        add(client, f"p{number}@example.org", age=number)
    client.post("/lists/news/segments", json={"name": "odd", "rule": "age in (1, 3, 5)"})
    params: dict[str, str] = {"segment": "odd", "limit": "2"}
    emails: list[str] = []
    for _ in range(5):
        part = client.get("/lists/news/subscribers", params=params).json()
        emails += [each["email"] for each in part["items"]]
        if part["next"] is None:
            break
        params["after"] = part["next"]
    assert emails == [f"p{number}@example.org" for number in (1, 3, 5)]


def test_a_message_goes_to_a_segment_without_the_subscribers_of_other_lists(
    client: httpx2.Client,
) -> None:
    add(client, "ann@example.org", city="Bern")
    add(client, "bob@example.org", city="Bern")
    add(client, "cec@example.org", city="Basel")
    assert client.post("/lists", json={**NEWS, "name": "vip"}).status_code == 201
    vip = {"email": "bob@example.org", "verified": True}
    assert client.post("/lists/vip/subscribers", json=vip).status_code == 201
    bern = {"name": "bern", "rule": 'city = "Bern"'}
    assert client.post("/lists/news/segments", json=bern).status_code == 201
    message = {
        "list": "news", "subject": "Hi", "html": "<p>Hi</p>", "scheduled_at": "2999-01-01T00:00Z",
        "segment": "bern", "exclude_lists": ["vip"],
    }  # fmt: skip
    made = client.post("/messages", json=message)
    assert made.status_code == 201, made.text
    shown = {name: made.json()[name] for name in ("segment", "exclude_segments", "exclude_lists")}
    assert shown == {"segment": "bern", "exclude_segments": [], "exclude_lists": ["vip"]}
    place = f"/messages/{made.json()['ref']}"
    assert client.get(f"{place}/preflight").json()["audience"] == {
        "will_receive": 1,
        "excluded": {"outside_segment": 1, "excluded_list": 1},
    }
    kept = client.delete("/lists/news/segments/bern")
    assert kept.status_code == 409
    assert "which needs it, is Pending" in kept.json()["detail"]

    turned = client.patch(place, json={"segment": None, "exclude_segments": ["bern"]})
    assert turned.status_code == 200, turned.text
    assert turned.json()["segment"] is None
    assert client.get(f"{place}/preflight").json()["audience"]["will_receive"] == 1
    everybody = client.patch(place, json={"exclude_segments": [], "exclude_lists": []})
    assert (everybody.json()["exclude_segments"], everybody.json()["exclude_lists"]) == ([], [])
    both = client.patch(place, json={"more_lists": ["vip"]})
    assert (both.json()["list"], both.json()["more_lists"]) == ("news", ["vip"])
    assert client.get(f"{place}/preflight").json()["audience"] == {
        "will_receive": 3,
        "excluded": {"duplicate": 1},
    }


def test_an_audience_that_does_not_exist_is_refused_by_its_field(client: httpx2.Client) -> None:
    message = {"list": "news", "subject": "Hi", "html": "<p>Hi</p>"}
    for audience in (
        {"segment": "none"},
        {"exclude_lists": ["none"]},
        {"exclude_lists": ["news"]},
        {"more_lists": ["none"]},
    ):
        refused = client.post("/messages", json={**message, **audience})
        assert refused.status_code == 422, refused.text
        assert [each["field"] for each in refused.json()["errors"]] == [*audience]
    draft = client.post("/messages", json={**message, "draft": True, "segment": "none"})
    assert draft.status_code == 201
    place = f"/messages/{draft.json()['ref']}"
    early = client.post(f"{place}/schedule", json={})
    assert early.status_code == 422
    assert early.json()["errors"] == [
        {"field": "segment", "problem": "there is no segment 'none' of the list news"}
    ]
    found = client.get(f"{place}/preflight").json()
    assert [each["code"] for each in found["findings"]] == ["incomplete-segment"]


def test_a_message_shows_the_values_of_a_subscriber(client: httpx2.Client) -> None:
    add(client, "ann@example.org", age=30, first_name="<Ann>")
    message = {
        "draft": True, "list": "news", "subject": 'Hi {{ first_name | default: "you" }}',
        "html": '<p>{{ first_name | default: "you" }} in {{ city }}, {{ age | default: "?" }}</p>',
        "preheader": "News from {{ city }}",
    }  # fmt: skip
    place = f"/messages/{client.post('/messages', json=message).json()['ref']}"
    ann = client.get(f"{place}/render", params={"email": "ann@example.org"}).json()
    assert ann["subject"] == "Hi <Ann>"
    assert "<p>&lt;Ann&gt; in your city, 30</p>" in ann["html"]
    assert "News from your city" in ann["html"]
    assert ann["text"].startswith("<Ann> in your city, 30")
    example = client.get(f"{place}/render").json()
    assert (example["subject"], "you in your city, ?" in example["html"]) == ("Hi you", True)
    tested = client.post(
        f"{place}/test", json={"to": ["bob@example.org"], "subscriber": "ann@example.org"}
    )
    assert tested.status_code == 200, tested.text
    nobody = {"to": ["bob@example.org"], "subscriber": "nobody@example.org"}
    assert client.post(f"{place}/test", json=nobody).status_code == 404

    adults = "<p>{% if age >= 18 %}An adult{% else %}Somebody{% end %}</p>"
    assert client.patch(place, json={"html": adults}).status_code == 200
    shown = client.get(f"{place}/render", params={"email": "ann@example.org"}).json()
    assert "<p>An adult</p>" in shown["html"]
    assert "<p>Somebody</p>" in client.get(f"{place}/render").json()["html"]

    wrong = client.patch(place, json={"html": "<p>\n{{ age }}</p>"})
    assert wrong.status_code == 200  # a draft keeps everything
    refused = client.post(f"{place}/schedule", json={})
    [error] = refused.json()["errors"]
    assert error["field"] == "body"
    assert error["problem"].startswith("line 2, column 1: {{ age }} may be empty")


def test_a_field_is_renamed_with_its_values(client: httpx2.Client) -> None:
    add(client, "ann@example.org", city="Bern")
    rule = {"name": "bern", "rule": 'city = "Bern"'}
    assert client.post("/lists/news/segments", json=rule).status_code == 201
    place = "/lists/news/fields/city/rename"
    renamed = client.post(place, json={"name": "town"})
    assert renamed.status_code == 200, renamed.text
    assert renamed.json()["name"] == "town"
    ann = client.get("/lists/news/subscribers/ann@example.org").json()
    assert ann["attributes"] == {"town": "Bern"}
    assert client.get("/lists/news/segments/bern").json()["rule"] == 'town = "Bern"'
    assert client.post(place, json={"name": "x"}).status_code == 404
    wrong = client.post("/lists/news/fields/town/rename", json={"name": "To wn"})
    assert wrong.status_code == 422


def test_fields_of_all_lists_are_declared_once(client: httpx2.Client) -> None:
    assert client.get("/fields").json() == []
    plan = {"name": "tariff", "type": "choice", "choices": ["free", "pro"]}
    declared = client.put("/fields", json=[plan])
    assert declared.status_code == 200, declared.text
    assert [each["name"] for each in client.get("/fields").json()] == ["tariff"]
    assert "tariff" not in {each["name"] for each in client.get("/lists/news/fields").json()}
    add(client, "ann@example.org", tariff="pro")
    rule = {"rule": 'tariff = "pro"'}
    assert client.post("/lists/news/segments/preview", json=rule).json()["count"] == 1
    twice = client.put("/lists/news/fields", json=[plan])
    assert twice.status_code == 422
    assert "tariff is a field of all lists" in twice.text
    taken = client.put("/fields", json=[{"name": "city"}])
    assert taken.status_code == 422
    assert "the list news has its own field city" in taken.text
    assert client.post("/fields/tariff/rename", json={"name": "price"}).status_code == 200
    ann = client.get("/lists/news/subscribers/ann@example.org").json()
    assert ann["attributes"] == {"price": "pro"}
    assert client.put("/fields", json=[]).status_code == 200
