"""What calls take, field by field."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from postroom.domain.languages import LANGUAGES
from postroom.storage.limits import QUEUE_SECONDS
from postroom.web.api.fields import (
    Address,
    Description,
    Language,
    ListLanguage,
    ListName,
    Moment,
    NewListName,
    PostalAddress,
    Reason,
    Subject,
)

_UNBROKEN = {"type": "string", "pattern": "^[^\\u0000]*$"}


def _unbroken(text: str) -> str:
    """NUL is what not every store can keep, and no mail."""
    if "\0" in text:
        raise ValueError("must not contain NUL")
    return text


def _unbroken_names(properties: dict[str, str]) -> dict[str, str]:
    for name in properties:
        _unbroken(name)
    return properties


LONGEST_TTL = 36_500 * 86_400.0  # seconds: a hundred years


class Body(BaseModel):
    """Exactly these fields with exactly these types: nothing is guessed at."""

    model_config = ConfigDict(strict=True, extra="forbid")


def _without_null(schema: dict[str, Any], model: type[Any]) -> None:
    for name, each in schema["properties"].items():
        each.pop("default", None)
        if name not in model.nullable:
            [only] = [some for some in each.pop("anyOf") if some.get("type") != "null"]
            each.update({**only, **each})


class Change(Body):
    """What is left out stays as it is. Null is no value, but for fields that say what it means."""

    model_config = ConfigDict(strict=True, extra="forbid", json_schema_extra=_without_null)
    nullable: ClassVar[frozenset[str]] = frozenset()

    @field_validator("*", mode="before")
    @classmethod
    def _no_null(cls, value: object, info: ValidationInfo) -> object:
        if value is None and info.field_name not in cls.nullable:
            raise ValueError("cannot be null: leave it out, and it stays as it is")
        return value


Unbroken = Annotated[str, AfterValidator(_unbroken), WithJsonSchema(_UNBROKEN)]


class NewList(Body):
    name: NewListName
    description: Description
    from_address: Annotated[Address, Field(description="The address that mails come from.")]
    public: Annotated[
        bool, Field(description="Whether everybody may sign up on the public page.")
    ] = True
    language: ListLanguage = LANGUAGES[0]
    postal_address: PostalAddress = ""


class ListChange(Change):
    """What is left out stays as it is."""

    description: Description | None = None
    from_address: Address | None = None
    public: bool | None = None
    language: ListLanguage | None = None
    postal_address: PostalAddress | None = None


class NewSubscriber(Body):
    email: Address
    verified: Annotated[
        bool, Field(description="Whether the owner is known to want it: nobody is asked.")
    ] = False


class SubscriberChange(Change):
    """What is left out stays as it is."""

    nullable = frozenset({"blocked"})

    email: Annotated[Address | None, Field(description="Another address of the same person.")] = (
        None
    )
    verified: bool | None = None
    blocked: Reason | None = None


class SignUp(Body):
    email_address: Address
    list_name: ListName
    language: Annotated[
        Language | None,
        Field(description="What the confirmation email speaks; if left out, the list's."),
    ] = None


def _needs_a_body(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [
        {"required": [name], "properties": {name: {"type": "string", "pattern": "\\S"}}}
        for name in ("html", "text")
    ]


class NewMessage(Body):
    """At least one of `html` and `text` is needed. Neither may be blank."""

    model_config = ConfigDict(strict=True, extra="forbid", json_schema_extra=_needs_a_body)

    list: ListName
    subject: Subject
    html: Annotated[
        Unbroken | None,
        Field(
            description="May hold {{email}}, {{list_description}} and {{unsubscribe_url}}.",
            examples=["<p>Hello</p>"],
        ),
    ] = None
    text: Annotated[
        Unbroken | None,
        Field(
            description="Made of the HTML if it is left out; an empty one is not.",
            examples=["Hello"],
        ),
    ] = None
    scheduled_at: Moment | None = None


class MessageChange(Change):
    """What is left out stays as it is, but a text that was made of the HTML follows it; an empty
    body is removed."""

    list: ListName | None = None
    subject: Subject | None = None
    html: Unbroken | None = None
    text: Unbroken | None = None
    scheduled_at: Moment | None = None


class Decision(Body):
    """About an email that a crash left in doubt."""

    email: Address
    decision: Annotated[
        Literal["sent", "resend"],
        Field(description="It did arrive, or it is to be sent again."),
    ]


class NewQueueMessage(Body):
    body: Unbroken
    delay: Annotated[
        float,
        Field(
            ge=0, le=QUEUE_SECONDS, allow_inf_nan=False, description="Seconds until it is ready."
        ),
    ] = 0.0
    ttl: Annotated[
        float | None,
        Field(
            ge=1,
            le=LONGEST_TTL,
            allow_inf_nan=False,
            description="Seconds after which it is not delivered any more.",
        ),
    ] = None
    properties: Annotated[
        dict[str, Unbroken],
        AfterValidator(_unbroken_names),
        WithJsonSchema(
            {
                "type": "object",
                "description": "What travels with the body.",
                "propertyNames": _UNBROKEN,
                "additionalProperties": _UNBROKEN,
            }
        ),
    ] = {}


Duration = Annotated[str, Field(pattern=r"^\d{1,9}(\.\d{1,3})?(ms|s|m|h|d)$", examples=["20m"])]
Size = Annotated[str, Field(pattern=r"^\d{1,9} ?([KMG]?B)$", examples=["200MB"])]


def _whole(value: object) -> object:
    """JSON has one kind of number: 3.0 is as whole as 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


From1To1000 = Annotated[int, Field(ge=1, le=1000), BeforeValidator(_whole)]
UpTo1000 = Annotated[int, Field(ge=0, le=1000), BeforeValidator(_whole)]
Messages = Annotated[int, Field(ge=1, le=10**9), BeforeValidator(_whole)]
OpenFiles = Annotated[int, Field(ge=32, le=1_000_000), BeforeValidator(_whole)]


class AppChange(Change):
    """What is left out stays as it is; null means that there is no limit.

    What an application runs (`handler`, `command`), its user and its environment are changed on
    the command line only.
    """

    nullable = frozenset(
        {
            "handler_timeout",
            "recycle_after",
            "recycle_messages",
            "recycle_memory",
            "memory_limit",
            "cpu_limit",
            "open_files",
        }
    )

    min_processes: UpTo1000 | None = None
    max_processes: From1To1000 | None = None
    concurrency: From1To1000 | None = None
    idle_timeout: Duration | None = None
    handler_timeout: Duration | None = None
    receive_retry_count: UpTo1000 | None = None
    max_retry_cycles: UpTo1000 | None = None
    retry_cycle_delay: Duration | None = None
    on_poison: Literal["move", "reject", "drop", "fault"] | None = None
    drain_timeout: Duration | None = None
    recycle_after: Duration | None = None
    recycle_messages: Messages | None = None
    recycle_memory: Size | None = None
    memory_limit: Size | None = None
    cpu_limit: Duration | None = None
    open_files: OpenFiles | None = None


class Redrive(Body):
    """Nothing of it is needed: then all messages are brought back at once."""

    id: Annotated[str | None, Field(description="Only this message.")] = None
    rate: Annotated[
        float | None,
        Field(ge=0.001, le=1_000_000, allow_inf_nan=False, description="Messages per second."),
    ] = None
    dead_letter_queue: Annotated[
        Unbroken | None,
        Field(
            description="The queue that the sender named: only what was rejected there comes back."
        ),
    ] = None
