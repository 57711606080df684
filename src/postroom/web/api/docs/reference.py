"""The document for people: a page made on the server, without scripts."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape

from postroom.services.accounts.api_keys import SCOPES
from postroom.web.api.problems import KINDS
from postroom.web.api.routing import SCOPE

_METHODS = {"get": "busy", "post": "good", "patch": "warn", "delete": "bad"}
_HOST = "https://postroom.example.org"


class Row(msgspec.Struct, frozen=True):
    name: str
    type: str
    meaning: Markup
    required: bool = False


class Answer(msgspec.Struct, frozen=True):
    status: str
    meaning: Markup
    colour: str


class Call(msgspec.Struct, frozen=True):
    id: str
    method: str
    colour: str
    path: str
    summary: str
    description: Markup
    scope: str
    parameters: list[Row]
    headers: list[Row]
    body: list[Row]
    result: list[Row]
    answers: list[Answer]
    example: str


class Part(msgspec.Struct, frozen=True):
    id: str
    name: str
    calls: list[Call]


def docs_page(openapi: dict[str, Any]) -> str:
    """The document as HTML, to stand below the heading of a page."""
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


def _parts(openapi: dict[str, Any]) -> list[Part]:
    parts: dict[str, list[Call]] = {}
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            call = _Reader(openapi).call(method, path, operation)
            parts.setdefault(operation["tags"][0], []).append(call)
    return [Part(f"part-{name.lower()}", name, calls) for name, calls in parts.items()]


class _Reader:
    """Reads operations, whose schemas are elsewhere in the document."""

    def __init__(self, openapi: dict[str, Any]) -> None:
        self._openapi = openapi

    def call(self, method: str, path: str, operation: dict[str, Any]) -> Call:
        media_type, body = self._body(operation)
        return Call(
            id=operation["operationId"],
            method=method.upper(),
            colour=_METHODS[method],
            path=self._openapi["servers"][0]["url"] + path,
            summary=operation["summary"],
            description=_prose(operation.get("description", "")),
            scope=operation[SCOPE],
            parameters=[self._parameter(each) for each in operation.get("parameters", [])],
            headers=[
                Row(name, "text", _inline(meaning))
                for name, meaning in operation.get("x-headers", {}).items()
            ],
            body=self._rows(body, to_be_sent=True),
            result=self._rows(self._result(operation)),
            answers=[_answer(*each) for each in sorted(operation["responses"].items())],
            example=self._example(method, path, operation, media_type, body),
        )

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema itself: what it refers to, and what it is unless it is null."""
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

    def _parameter(self, parameter: dict[str, Any]) -> Row:
        schema = self._resolved(parameter["schema"])
        meaning = parameter.get("description") or schema.get("description", "")
        place = " in the path" if parameter["in"] == "path" else ""
        required = bool(parameter.get("required"))
        return Row(parameter["name"], self._type(schema) + place, _inline(meaning), required)

    def _rows(self, schema: dict[str, Any] | None, *, to_be_sent: bool = False) -> list[Row]:
        if schema is None:
            return []
        needed = schema.get("required", []) if to_be_sent else []
        return [
            Row(
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
            told = ", ".join(map(str, found["enum"]))
        elif found.get("type") == "array":
            told = f"list of {self._type(found['items'])}"
        elif found.get("type") == "object":
            told = ", ".join(found["properties"]) if "properties" in found else "object"
        else:
            told = {"email": "address", "date-time": "time"}.get(
                found.get("format", ""), {"string": "text"}.get(found["type"], found["type"])
            )
        return f"{told} or null" if can_be_null else told

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
        """An example of each field that has one."""
        examples: dict[str, Any] = {}
        for name, each in schema.get("properties", {}).items():
            found = self._resolved(each)
            values = found.get("examples") or found.get("enum")
            if values or found.get("type") == "boolean":
                examples[name] = values[0] if values else True
        return examples


def _answer(status: str, response: dict[str, Any]) -> Answer:
    colour = {"2": "good", "5": "bad"}.get(status[0], "warn")
    return Answer(status, _inline(response["description"]), colour)


def _prose(text: str) -> Markup:
    """Paragraphs."""
    paragraphs = [each for each in text.split("\n\n") if each.strip()]
    return Markup("\n").join(Markup("<p>{}</p>").format(_inline(each)) for each in paragraphs)


def _inline(text: str) -> Markup:
    """What is between backticks is code."""
    pieces = re.split(r"`([^`]+)`", " ".join(text.split()))
    return Markup("").join(
        Markup("<code>{}</code>").format(each) if number % 2 else escape(each)
        for number, each in enumerate(pieces)
    )
