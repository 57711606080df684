"""The emails of a list in its own words: read, saved and reset, by kind and language."""

from __future__ import annotations

from postroom.composing.list_email_bodies import check_list_email
from postroom.domain.audience.lists.list_emails import (
    ListEmail,
    ListEmailKind,
    WrittenEmail,
    parse_list_email,
    stored_emails,
)
from postroom.domain.audience.lists.lists import MailingList
from postroom.domain.languages import parse_list_language
from postroom.domain.messages.pictures import media_in
from postroom.mail.system_mail import standard_confirmation, standard_welcome
from postroom.services.audience.lists import ListService
from postroom.services.audience.targeting.audiences import AudienceService
from postroom.services.messages.media.picture_uses import LIST, PictureUses


def standard_email(kind: ListEmailKind, language: str) -> ListEmail:
    """Return the text that lists use unless they have their own."""
    match kind:
        case ListEmailKind.CONFIRMATION:
            return standard_confirmation(language)
        case ListEmailKind.WELCOME:
            return standard_welcome(language)


def written_email(mailing_list: MailingList, kind: ListEmailKind, language: str) -> WrittenEmail:
    """Return what a list says in a language."""
    own = mailing_list.own_emails(kind).get(language)
    return WrittenEmail(kind, language, own or standard_email(kind, language), own is not None)


class ListEmailService:
    def __init__(self, uses: PictureUses, lists: ListService, audiences: AudienceService) -> None:
        self._uses = uses
        self._lists = lists
        self._audiences = audiences

    async def checked(
        self, list_name: str, kind: ListEmailKind, subject: str, text: str
    ) -> ListEmail:
        """Return a text as it would be stored. `Invalid`, `NoSuch` list."""
        email = parse_list_email(subject, text)
        check_list_email(kind, email, await self._audiences.merge_fields(list_name))
        return email

    async def save(
        self,
        list_name: str,
        kind: ListEmailKind,
        language: str,
        subject: str,
        text: str,
        *,
        etag: str | None = None,
    ) -> MailingList:
        """Give a list its own text. `Invalid`, `NoSuch` list, `Overtaken`."""
        current = await self._lists.get(list_name)
        email = await self.checked(current.name, kind, subject, text)
        await self._uses.record(LIST, current.name, media_in(email.text))
        texts = {**current.own_emails(kind), parse_list_language(language): email}
        return await self._replace(current, kind, texts, etag)

    async def reset(
        self, list_name: str, kind: ListEmailKind, language: str, *, etag: str | None = None
    ) -> MailingList:
        """Let a list use the standard text again. Can be repeated. `Invalid`, `NoSuch` list."""
        current = await self._lists.get(list_name)
        texts = current.own_emails(kind)
        texts.pop(parse_list_language(language), None)
        return await self._replace(current, kind, texts, etag)

    async def _replace(
        self,
        current: MailingList,
        kind: ListEmailKind,
        texts: dict[str, ListEmail],
        etag: str | None,
    ) -> MailingList:
        change = {f"{kind}_emails": stored_emails(texts)}
        return await self._lists.edit(current.name, etag=etag or current.etag, **change)
