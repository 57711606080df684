"""`/api/docs`: the OpenAPI document for people, as a page without scripts."""

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
from postroom.web.api.documenting import HEADERS, SCOPE
from postroom.web.api.problems import DOCS, KINDS
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_METHODS = {"get": "busy", "post": "good", "patch": "warn", "delete": "bad"}
_HOST = "https://postroom.example.org"


class FieldRow(msgspec.Struct, frozen=True):
    name: str
    type: str
    meaning: Markup
    required: bool = False


class ResponseRow(msgspec.Struct, frozen=True):
    status: str
    meaning: Markup
    colour: str


class CallSection(msgspec.Struct, frozen=True):
    id: str
    method: str
    colour: str
    path: str
    summary: str
    description: Markup
    scope: str
    parameters: list[FieldRow]
    headers: list[FieldRow]
    body: list[FieldRow]
    result: list[FieldRow]
    responses: list[ResponseRow]
    example: str


class TagSection(msgspec.Struct, frozen=True):
    id: str
    name: str
    calls: list[CallSection]


def docs_page(openapi: dict[str, Any]) -> str:
    """Return the document as HTML, without the heading of the page."""
    return _template().render(
        introduction=_prose(openapi["info"]["description"]),
        version=openapi["info"]["version"],
        document_url=f"{openapi['servers'][0]['url']}/openapi.json",
        parts=_parts(openapi),
        scopes=[(scope.value, meaning) for scope, meaning in SCOPES.items()],
        problems=sorted(KINDS.items()),
    )


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


def _parts(openapi: dict[str, Any]) -> list[TagSection]:
    parts: dict[str, list[CallSection]] = {}
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            call = _OperationReader(openapi).call(method, path, operation)
            parts.setdefault(operation["tags"][0], []).append(call)
    return [TagSection(f"part-{name.lower()}", name, calls) for name, calls in parts.items()]


class _OperationReader:
    """Turns operations into calls, following references to schemas."""

    def __init__(self, openapi: dict[str, Any]) -> None:
        self._openapi = openapi

    def call(self, method: str, path: str, operation: dict[str, Any]) -> CallSection:
        media_type, body = self._body(operation)
        return CallSection(
            id=operation["operationId"],
            method=method.upper(),
            colour=_METHODS[method],
            path=self._openapi["servers"][0]["url"] + path,
            summary=operation["summary"],
            description=_prose(operation.get("description", "")),
            scope=operation[SCOPE],
            parameters=[self._parameter(each) for each in operation.get("parameters", [])],
            headers=[
                FieldRow(name, "text", _inline(meaning))
                for name, meaning in operation.get(HEADERS, {}).items()
            ],
            body=self._rows(body, to_be_sent=True),
            result=self._rows(self._result(operation)),
            responses=[_response(*each) for each in sorted(operation["responses"].items())],
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
        url = f"{_HOST}{self._openapi['servers'][0]['url']}{path}"
        lines = [f"curl -X {method.upper()} {url}", '-H "Authorization: Bearer $KEY"']
        if body is not None:
            lines.append(f'-H "Content-Type: {media_type}"')
            if media_type == "application/json":
                lines.append(f"-d '{json.dumps(self._filled(body), ensure_ascii=False)}'")
            else:
                lines.append("--data-binary @subscribers.csv")
        return " \\\n  ".join(lines)

    def _filled(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return an example of each field that has one."""
        examples: dict[str, Any] = {}
        for name, each in schema.get("properties", {}).items():
            found = self._resolved(each)
            values = found.get("examples") or found.get("enum")
            if values or found.get("type") == "boolean":
                examples[name] = values[0] if values else True
        return examples


def _response(status: str, response: dict[str, Any]) -> ResponseRow:
    colour = {"2": "good", "5": "bad"}.get(status[0], "warn")
    return ResponseRow(status, _inline(response["description"]), colour)


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
def _reference() -> Markup:
    return Markup(docs_page(document()))  # noqa: S704 - made of our own texts, escaped above


async def docs(visit: Visit) -> Response:
    return visit.render("api/docs.html", reference=_reference())


API_VIEWS: tuple[View, ...] = (View(DOCS, docs, role=None),)
