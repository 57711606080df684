"""Users and API keys as JSON."""

from __future__ import annotations

from postroom.domain.audience.lists.list_rights import sorted_rights
from postroom.services.accounts.api_keys import ApiKey
from postroom.services.accounts.groups import UserGroup
from postroom.services.accounts.list_grants import ListGrant
from postroom.services.accounts.users import User
from postroom.services.resources import Resource, Time, describe_time


class ApiKeyResource(Resource, frozen=True):
    """A key for the API, without its secret."""

    id: str
    name: str
    scopes: list[str]
    only_lists: bool
    created_at: Time
    last_used_at: Time | None


def describe_api_key(key: ApiKey) -> ApiKeyResource:
    return ApiKeyResource(
        id=key.id,
        name=key.name,
        scopes=sorted(key.scopes),
        only_lists=key.only_lists,
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


class GroupResource(Resource, frozen=True):
    """Users who share rights on lists."""

    name: str
    members: list[str]
    created_at: Time


def describe_group(group: UserGroup) -> GroupResource:
    return GroupResource(
        name=group.name, members=list(group.members), created_at=describe_time(group.created_at)
    )


class ListGrantResource(Resource, frozen=True):
    """The rights of a user, a group or an API key on a list."""

    principal: str
    rights: list[str]
    list: str


def describe_grant(grant: ListGrant) -> ListGrantResource:
    return ListGrantResource(
        principal=grant.principal, list=grant.list_name, rights=list(sorted_rights(grant.rights))
    )
