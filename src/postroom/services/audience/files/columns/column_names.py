"""The names that columns have in files of any tool, in the five languages of Postroom.

Case, spaces, punctuation and accents do not matter (`cells.squeezed`). Names that only one tool
uses are in `tools.py`, and the names of fields are in `field_columns.py`.
"""

from __future__ import annotations

from typing import Final

from postroom.services.audience.files.cells import squeezed
from postroom.services.audience.files.columns.meanings import Meaning

# What spreadsheets, address books and other services call the column, the usual ones first.
EMAIL_NAMES: Final = (
    "email", "e-mail", "mail", "email address", "mail address", "e-mail-adresse", "adresse e-mail",
    "mailadresse", "adresse mail", "adresse email", "courriel", "correo electrónico",
    "e-mail 1 - value", "primary email", "subscriber email", "contact email",
    "이메일", "이메일 주소", "전자우편", "электронная почта", "эл. почта",
    "адрес электронной почты",
)  # fmt: skip

VERIFIED_NAMES: Final = (
    "verified", "confirmed", "bestätigt", "verifiziert", "confirmé", "confirmée", "vérifié",
    "подтверждён", "подтверждена", "подтверждено", "확인됨", "인증됨", "확인 여부", "인증 여부",
)  # fmt: skip
"""Columns that say yes or no. The first ones take precedence."""

COLUMN_NAMES: Final = {
    Meaning.STATUS: (
        "status", "subscription status", "subscriber status", "email status", "contact status",
        "member status", "marketing status", "opt-in status", "subscription state",
        "email marketing status",
        "Abo-Status", "Abonnement-Status", "Abonnementstatus", "Abonnementsstatus",
        "Abonnentenstatus", "Anmeldestatus", "Kontaktstatus", "Mitgliedsstatus", "Newsletterstatus",
        "Empfängerstatus", "E-Mail-Marketing-Status",
        "statut", "statut d'abonnement", "statut de l'abonnement", "statut abonnement",
        "statut de l'abonné", "statut d'inscription", "statut de l'inscription",
        "statut du contact", "statut e-mail", "statut de l'e-mail", "statut du membre",
        "статус", "статус подписки", "статус подписчика", "статус контакта", "статус адреса",
        "статус email", "статус рассылки", "статус участника",
        "상태", "구독 상태", "구독자 상태", "수신 상태", "회원 상태", "연락처 상태", "이메일 상태",
        "수신 동의 상태",
    ),
    Meaning.STATE: ("state", "Zustand", "état", "состояние"),
    Meaning.IS_SUBSCRIBED: (
        "subscribed", "is subscribed", "opted in", "opt-in", "accepts marketing",
        "accepts email marketing",
        "abonniert", "angemeldet", "abonné", "abonnée", "inscrit", "inscrite",
        "подписан", "подписана", "구독", "구독 여부", "수신 여부", "수신 동의", "수신 동의 여부",
        "이메일 수신 동의", "이메일 수신 여부", "메일 수신 동의", "메일 수신 여부",
    ),
    Meaning.HAS_UNSUBSCRIBED: (
        "unsubscribed", "has unsubscribed", "unsubscribed at", "unsubscribed on",
        "unsubscribe date", "unsubscribed date", "unsubscription date", "date unsubscribed",
        "unsubscribe time", "unsub time", "opted out", "has opted out", "opt-out", "opted out at",
        "opted out on", "opt-out date", "opt-out time", "email opt out", "has opted out of email",
        "abgemeldet", "abgemeldet am", "Abmeldung", "Abmeldung am", "Abmeldedatum",
        "Abmeldezeitpunkt", "Datum der Abmeldung", "abbestellt", "abbestellt am", "ausgetragen",
        "ausgetragen am", "gekündigt", "gekündigt am",
        "désabonné", "désabonnée", "désabonné le", "désabonnée le", "désabonnement",
        "date de désabonnement", "désinscrit", "désinscrite", "désinscrit le", "désinscrite le",
        "désinscription", "date de désinscription", "résilié", "résilié le",
        "отписан", "отписана", "отписано", "отписался", "отписалась", "отписка", "дата отписки",
        "время отписки", "отказ от рассылки", "отказался от рассылки",
        "수신거부", "수신거부일", "수신거부일시", "수신거부 여부", "수신거부 날짜", "구독취소",
        "구독취소일", "구독취소 여부", "구독해지", "구독해지일", "해지일", "탈퇴", "탈퇴일",
        "탈퇴 여부",
    ),
    Meaning.IS_BLOCKED: (
        "blocklisted", "blacklisted", "blocked at", "bounced", "bounced at", "hard bounced",
        "complained", "complained at", "cleaned", "clean time", "marked as spam", "suppressed",
        "undeliverable", "email blacklisted", "email blocklisted", "blacklisted email",
        "is this subscriber blacklisted", "is this account disabled",
        "gesperrt", "gesperrt am", "blockiert", "auf der Sperrliste", "unzustellbar", "gebounct",
        "gebounced", "bereinigt", "Spam-Beschwerde",
        "bloqué", "bloquée", "liste noire", "sur liste noire", "injoignable", "nettoyé",
        "signalé comme spam",
        "заблокирован", "заблокирована", "чёрный список", "в чёрном списке", "недоставляемый",
        "недоступен", "жалоба на спам",
        "차단", "차단됨", "차단 여부", "반송됨", "반송 여부", "스팸 신고",
    ),
    Meaning.JOINED: (
        "signed up", "signed up at", "signed up on", "signup date", "signup time", "sign-up at",
        "subscribed at", "subscribed on", "subscribe date", "subscription date", "date subscribed",
        "joined at", "joined on", "join date", "date joined", "opted in at", "opt-in date",
        "opt-in time", "registered at", "registration date", "added at", "added on", "date added",
        "Anmeldedatum", "Anmeldung am", "angemeldet am", "Anmeldezeitpunkt", "Datum der Anmeldung",
        "abonniert am", "eingetragen am", "Eintragungsdatum", "registriert am",
        "Registrierungsdatum", "Beitrittsdatum", "beigetreten am", "hinzugefügt am",
        "date d'inscription", "inscrit le", "inscrite le", "date d'abonnement", "abonné le",
        "abonnée le", "date d'ajout", "ajouté le",
        "дата подписки", "время подписки", "дата регистрации", "дата добавления",
        "가입일", "가입일시", "가입 날짜", "구독일", "구독일시", "구독 시작일", "구독 날짜",
        "등록일", "등록일시", "추가일",
    ),
    Meaning.CONFIRMED_AT: (
        "confirmed at", "confirmed on", "confirmation date", "confirmation time", "verified at",
        "bestätigt am", "Bestätigungsdatum", "confirmé le", "confirmée le", "date de confirmation",
        "дата подтверждения", "время подтверждения", "확인일", "확인일시", "인증일", "인증일시",
    ),
    Meaning.JOINED_FROM: ("signup IP", "opt-in IP", "subscription IP", "registration IP"),
    Meaning.CONFIRMED_FROM: ("confirmation IP", "confirmed IP"),
}  # fmt: skip
"""The columns of each meaning: dates of unsubscribing and of bounces count like a yes."""

MEANINGS: Final = {
    squeezed(name): meaning for meaning, names in COLUMN_NAMES.items() for name in names
}
