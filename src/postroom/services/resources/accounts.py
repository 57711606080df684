"""Users and API keys as JSON."""

from __future__ import annotations

from postroom.services.accounts.api_keys import ApiKey
from postroom.services.accounts.users import User
from postroom.services.resources import Resource, Time, describe_time


class ApiKeyResource(Resource, frozen=True):
    """A key for the API, without its secret."""

    id: str
    name: str
    scopes: list[str]
    created_at: Time
    last_used_at: Time | None


def describe_api_key(key: ApiKey) -> ApiKeyResource:
    return ApiKeyResource(
        id=key.id,
        name=key.name,
        scopes=sorted(key.scopes),
        created_at=describe_time(key.created_at),
        last_used_at=describe_time(key.last_used_at),
    )


class UserResource(Resource, frozen=True):
    """A person who can log in."""

    email: str
    role: str
    second_factor: bool
    slowed_down: bool
    created_at: Time


def describe_user(user: User) -> UserResource:
    return UserResource(
        email=user.email,
        role=user.role.value,
        second_factor=user.has_second_factor,
        slowed_down=user.is_slowed_down,
        created_at=describe_time(user.created_at),
    )
