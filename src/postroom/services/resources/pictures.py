"""Pictures as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from postroom.domain.messages.pictures import Picture
from postroom.services.messages.media.pictures import UsedIn
from postroom.services.resources import Resource, Time, describe_time


class PictureResource(Resource, frozen=True):
    """A picture for messages."""

    hash: Annotated[str, Meta(description="The SHA-256 of the stored bytes.")]
    url: Annotated[str, Meta(description="Its public address, for messages.")]
    name: Annotated[str, Meta(description="The name of the uploaded file.")]
    alt: Annotated[str, Meta(description="What it shows, for people who cannot see it.")]
    type: Annotated[str, Meta(description="image/jpeg, image/png or image/gif.")]
    size: Annotated[int, Meta(description="Bytes.")]
    width: Annotated[int, Meta(description="Pixels.")]
    height: Annotated[int, Meta(description="Pixels.")]
    animated: bool
    uploaded_at: Time
    uploaded_by: Annotated[str, Meta(description="A user, or `key:` and the id of an API key.")]
    etag: str


class PictureUseResource(Resource, frozen=True):
    """A message, a template or a list that uses a picture."""

    kind: Annotated[str, Meta(description="`message`, `template`, or `list` for its own emails.")]
    name: Annotated[str, Meta(description="The message's reference, or the name.")]
    title: Annotated[str, Meta(description="The message's subject, or the title.")]


class PictureDetailsResource(PictureResource, frozen=True):
    """A picture, and where it is used."""

    used_in: Annotated[
        Sequence[PictureUseResource], Meta(description="Up to 50 messages, templates and lists.")
    ]


def describe_picture(picture: Picture, base_url: str) -> PictureResource:
    return PictureResource(**_fields(picture, base_url))


def describe_picture_details(
    picture: Picture, uses: Sequence[UsedIn], base_url: str
) -> PictureDetailsResource:
    used_in = [PictureUseResource(each.kind, each.name, each.title) for each in uses]
    return PictureDetailsResource(**_fields(picture, base_url), used_in=used_in)


def _fields(picture: Picture, base_url: str) -> dict[str, Any]:
    return {
        "hash": picture.hash,
        "url": base_url.rstrip("/") + picture.path,
        "name": picture.name,
        "alt": picture.alt,
        "type": picture.kind.content_type,
        "size": picture.size,
        "width": picture.width,
        "height": picture.height,
        "animated": picture.is_animated,
        "uploaded_at": describe_time(picture.uploaded_at),
        "uploaded_by": picture.uploaded_by,
        "etag": picture.etag,
    }
