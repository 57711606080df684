"""`/api/docs`: the OpenAPI document for people, with this server's URL in its examples.

Errors are described once, at the end of the page: a call only names those that are its own.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape
from starlette.responses import Response

from postroom.services.accounts.api_keys import SCOPES
from postroom.web.api.app import document
from postroom.web.api.documenting import ALWAYS, HEADERS, RIGHT, SCOPE, WITH_BODY
from postroom.web.api.problems import DOCS, KINDS, MEDIA_TYPE, ProblemKind
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_EXAMPLE_WIDTH = 44  # a longer JSON body is written on several lines


class FieldRow(msgspec.Struct, frozen=True):
    name: str
    type: str
    meaning: Markup
    required: bool = False


class ResponseRow(msgspec.Struct, frozen=True):
    status: str
    meaning: Markup


class ErrorRow(msgspec.Struct, frozen=True):
    """An error, which the page describes once."""

    status: int
    name: str
    title: str
    advice: Markup
    when: str = ""


class CallSection(msgspec.Struct, frozen=True):
    id: str
    method: str
    path: str
    short_path: str
    summary: str
    description: Markup
    scope: str
    right: str
    parameters: list[FieldRow]
    headers: list[FieldRow]
    body: list[FieldRow]
    result: list[FieldRow]
    responses: list[ResponseRow]
    errors: list[ErrorRow]
    example: str


class TagSection(msgspec.Struct, frozen=True):
    id: str
    name: str
    calls: list[CallSection]


def docs_page(openapi: dict[str, Any], base_url: str) -> str:
    """Return the document as HTML, without the heading of the page."""
    place = openapi["servers"][0]["url"]
    return _template().render(
        introduction=_prose(openapi["info"]["description"]),
        version=openapi["info"]["version"],
        base_url=f"{base_url}{place}",
        document_url=f"{place}/openapi.json",
        parts=_parts(openapi, base_url),
        scopes=[(scope.value, meaning) for scope, meaning in SCOPES.items()],
        errors=[_error(status, kind) for status, kind in sorted(KINDS.items())],
        error_example=_error_example(),
    )


def _error(status: int, kind: ProblemKind) -> ErrorRow:
    when = "any call" if status in ALWAYS else "calls with a body" if status in WITH_BODY else ""
    return ErrorRow(status, kind.name, kind.title, _inline(kind.advice), when)


def _error_example() -> str:
    kind = KINDS[422]
    body = {
        "type": f"{DOCS}#problem-{kind.name}",
        "title": kind.title,
        "status": 422,
        "detail": "email: 'ann' is not an email address",
        "errors": [
            {"field": "email", "problem": "'ann' is not an email address"},
        ],
    }
    head = f"HTTP/1.1 422 Unprocessable Content\nContent-Type: {MEDIA_TYPE}\n\n"
    return head + json.dumps(body, indent=2)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("reference.html")


def _parts(openapi: dict[str, Any], base_url: str) -> list[TagSection]:
    parts: dict[str, list[CallSection]] = {}
    reader = _OperationReader(openapi, base_url)
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            call = reader.call(method, path, operation)
            parts.setdefault(operation["tags"][0], []).append(call)
    return [
        TagSection(f"part-{name.lower().replace(' ', '-')}", name, calls)
        for name, calls in parts.items()
    ]


class _OperationReader:
    """Turns operations into calls, following references to schemas."""

    def __init__(self, openapi: dict[str, Any], base_url: str) -> None:
        self._openapi = openapi
        self._base_url = base_url

    def call(self, method: str, path: str, operation: dict[str, Any]) -> CallSection:
        media_type, body = self._body(operation)
        return CallSection(
            id=operation["operationId"],
            method=method.upper(),
            path=self._openapi["servers"][0]["url"] + path,
            short_path=path,
            summary=operation["summary"],
            description=_prose(operation.get("description", "")),
            scope=operation[SCOPE],
            right=operation.get(RIGHT, ""),
            parameters=[self._parameter(each) for each in operation.get("parameters", [])],
            headers=[
                FieldRow(name, "text", _inline(meaning))
                for name, meaning in operation.get(HEADERS, {}).items()
            ],
            body=self._rows(body, to_be_sent=True),
            result=self._rows(self._result(operation)),
            responses=[
                ResponseRow(status, _inline(response["description"]))
                for status, response in sorted(operation["responses"].items())
                if int(status) < 400
            ],
            errors=[
                _error(status, KINDS[status])
                for status in sorted(map(int, operation["responses"]))
                if status >= 400 and status not in (*ALWAYS, *WITH_BODY)
            ],
            example=self._example(method, path, operation, media_type, body),
        )

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema that a reference or an optional value stands for."""
        while True:
            if "$ref" in schema:
                name = schema["$ref"].rpartition("/")[2]
                schema = self._openapi["components"]["schemas"][name]
            elif "anyOf" in schema and "properties" not in schema:
                others = {key: value for key, value in schema.items() if key != "anyOf"}
                some = [each for each in schema["anyOf"] if each.get("type") != "null"]
                schema = {**self._resolved(some[0]), **others}
            else:
                return schema

    def _parameter(self, parameter: dict[str, Any]) -> FieldRow:
        schema = self._resolved(parameter["schema"])
        meaning = parameter.get("description") or schema.get("description", "")
        place = " in the path" if parameter["in"] == "path" else ""
        required = bool(parameter.get("required"))
        return FieldRow(parameter["name"], self._type(schema) + place, _inline(meaning), required)

    def _rows(self, schema: dict[str, Any] | None, *, to_be_sent: bool = False) -> list[FieldRow]:
        if schema is None:
            return []
        needed = schema.get("required", []) if to_be_sent else []
        return [
            FieldRow(
                name,
                self._type(each),
                _inline(self._resolved(each).get("description", "")),
                name in needed,
            )
            for name, each in schema.get("properties", {}).items()
        ]

    def _type(self, schema: dict[str, Any]) -> str:
        can_be_null = any(each.get("type") == "null" for each in schema.get("anyOf", []))
        found = self._resolved(schema)
        if "enum" in found:
            text = ", ".join(map(str, found["enum"]))
        elif found.get("type") == "array":
            text = f"list of {self._type(found['items'])}"
        elif found.get("type") == "object":
            text = ", ".join(found["properties"]) if "properties" in found else "object"
        else:
            text = {"email": "address", "date-time": "time"}.get(
                found.get("format", ""), {"string": "text"}.get(found["type"], found["type"])
            )
        return f"{text} or null" if can_be_null else text

    def _body(self, operation: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        content = operation.get("requestBody", {}).get("content", {})
        for media_type, each in content.items():
            return media_type, self._resolved(each["schema"])
        return "", None

    def _result(self, operation: dict[str, Any]) -> dict[str, Any] | None:
        for status, response in sorted(operation["responses"].items()):
            for media_type, each in response.get("content", {}).items():
                if status.startswith("2") and media_type == "application/json":
                    return self._resolved(each["schema"])
        return None

    def _example(
        self,
        method: str,
        path: str,
        operation: dict[str, Any],
        media_type: str,
        body: dict[str, Any] | None,
    ) -> str:
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                value = str(self._resolved(parameter["schema"]).get("examples", ["1"])[0])
                path = path.replace(f"{{{parameter['name']}}}", value.replace("/", "%2F"))
        url = f"{self._base_url}{self._openapi['servers'][0]['url']}{path}"
        chosen = "" if method == "get" else f"-X {method.upper()} "
        lines = [f"curl {chosen}{url}", '-H "Authorization: Bearer $POSTROOM_KEY"']
        if body is not None:
            lines.append(f'-H "Content-Type: {media_type}"')
            if media_type == "application/json":
                lines.append(f"-d '{_json(self._filled(body))}'")
            else:
                lines.append("--data-binary @subscribers.csv")
        return " \\\n  ".join(lines)

    def _filled(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return an example of what is required, or of one field if nothing is."""
        if "examples" in schema:
            given: dict[str, Any] = schema["examples"][0]
            return given
        known: dict[str, Any] = {}
        for name, each in schema.get("properties", {}).items():
            found = self._resolved(each)
            values = found.get("examples") or found.get("enum")
            if values or found.get("type") == "boolean":
                known[name] = values[0] if values else True
        either = schema.get("anyOf", [{}])[0]
        required = {*schema.get("required", []), *either.get("required", [])}
        return {
            name: value
            for number, (name, value) in enumerate(known.items())
            if name in required or (not required and number == 0)
        }


def _json(value: dict[str, Any]) -> str:
    """Return JSON on one line if it is short."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _EXAMPLE_WIDTH:
        return text
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n  ")


def _prose(text: str) -> Markup:
    """Return paragraphs."""
    paragraphs = [each for each in text.split("\n\n") if each.strip()]
    return Markup("\n").join(Markup("<p>{}</p>").format(_inline(each)) for each in paragraphs)


def _inline(text: str) -> Markup:
    """Return text in which backticks mark code."""
    pieces = re.split(r"`([^`]+)`", " ".join(text.split()))
    return Markup("").join(
        Markup("<code>{}</code>").format(each) if number % 2 else escape(each)
        for number, each in enumerate(pieces)
    )


@cache
def _reference(base_url: str) -> Markup:
    return Markup(docs_page(document(), base_url))  # noqa: S704 - made of our own texts, escaped above


async def docs(visit: Visit) -> Response:
    return visit.render("api/docs.html", reference=_reference(visit.context.base_url))


API_VIEWS: tuple[View, ...] = (View(DOCS, docs, is_public=True),)
