"""What words for the state of an address mean, in the five languages of Postroom.

Case, spaces, punctuation and accents do not matter (`cells.squeezed`).
"""

from __future__ import annotations

import re
from typing import Final

from postroom.domain.audience.suppressions import SuppressionReason
from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import shown, squeezed
from postroom.services.audience.files.columns.meanings import Blocking, Meaning, Standing

_LONGEST_WORD: Final = 100

_TRUE_WORDS: Final = ("true", "yes", "y", "t", "1", "on", "ja", "oui", "да", "예", "네")
_FALSE_WORDS: Final = (
    "false", "no", "n", "f", "0", "off", "nein", "non", "нет", "아니요", "아니오",
)  # fmt: skip
TRUTH: Final = {**dict.fromkeys(_TRUE_WORDS, True), **dict.fromkeys(_FALSE_WORDS, False), "": None}
"""What a cell means that says yes, no, or nothing."""

# The words of Brevo, Buttondown, ConvertKit, Keila, listmonk, Mailchimp, MailerLite, Mailman,
# phpList and Sendy, then their translations and those of other tools.
STATUS_WORDS: Final = {
    Standing.CONFIRMED: (
        "confirmed", "active", "enabled", "subscribed", "verified", "opted in", "double opt-in",
        "regular", "premium", "gifted", "trialed", "churning", "past due",
        "bestätigt", "verifiziert", "aktiv", "aktiviert", "angemeldet", "abonniert", "eingetragen",
        "confirmé", "confirmée", "vérifié", "vérifiée", "actif", "activé", "activée", "abonné",
        "abonnée", "inscrit", "inscrite",
        "подтверждён", "подтверждена", "подтверждено", "подтверждённый", "активен", "активна",
        "активно", "активный", "подписан", "подписана", "подписался", "подписалась",
        "подписался (лась)", "подписался (-ась)",
        "확인됨", "확인 완료", "인증됨", "인증 완료", "활성", "활성화", "활성화됨", "구독",
        "구독 중", "구독함", "구독됨", "수신 동의", "동의", "정상",
    ),
    Standing.PENDING: (
        "pending", "unconfirmed", "unverified", "not confirmed", "not verified", "inactive",
        "nonsubscribed", "not subscribed", "never subscribed", "transactional", "single opt-in",
        "unactivated", "awaiting confirmation", "waiting",
        "ausstehend", "unbestätigt", "nicht bestätigt", "nicht verifiziert", "inaktiv", "wartend",
        "Bestätigung ausstehend", "wartet auf Bestätigung", "nicht angemeldet", "nicht abonniert",
        "en attente", "en attente de confirmation", "non confirmé", "non confirmée", "non vérifié",
        "non vérifiée", "à confirmer", "inactif", "non abonné", "non abonnée", "non inscrit",
        "non inscrite",
        "ожидает", "ожидание", "ожидает подтверждения", "не подтверждён", "не подтверждена",
        "не подтверждено", "неподтверждённый", "неактивен", "неактивна", "неактивно", "неактивный",
        "не подписан", "не подписана",
        "대기", "대기 중", "확인 대기", "인증 대기", "승인 대기", "미확인", "미인증", "비활성",
        "비활성화", "미구독", "비구독",
    ),
    Standing.UNSUBSCRIBED: (
        "unsubscribed", "unsubscribe", "unsub", "opted out", "opt-out", "cancelled", "canceled",
        "removed", "left", "disabled", "archived", "by user", "deleted",
        "paused", "churned",
        "abgemeldet", "abbestellt", "ausgetragen", "gekündigt", "widerrufen", "entfernt",
        "gelöscht", "deaktiviert", "abgelehnt",
        "désabonné", "désabonnée", "désinscrit", "désinscrite", "résilié", "résiliée", "annulé",
        "annulée", "retiré", "retirée", "supprimé", "supprimée", "désactivé", "désactivée",
        "refusé", "refusée",
        "отписан", "отписана", "отписано", "отписался", "отписалась", "отписался (лась)",
        "отписался (-ась)", "отписавшийся", "отписка",
        "отказ", "отказался", "отказалась", "отменён", "отменена", "отключён", "отключена",
        "удалён", "удалена", "удалено",
        "수신거부", "수신거부됨", "거부", "구독취소", "구독취소됨", "구독해지", "해지", "해지됨",
        "탈퇴", "탈퇴함", "취소", "취소됨", "삭제됨", "수신 미동의", "미동의", "동의 철회",
    ),
    Standing.BLOCKED: (
        "blocklisted", "blacklisted", "blocked", "cleaned", "bounced", "hard bounce",
        "hard bounced", "soft bounced", "complained", "complaint", "spam", "spam complaint",
        "marked as spam", "abuse", "junk", "banned", "suppressed", "invalid", "by bounces",
        "by admin", "unreachable", "undeliverable", "spammy", "malformed", "disposable",
        "gesperrt", "blockiert", "bereinigt", "gebounct", "gebounced", "unzustellbar",
        "nicht zustellbar", "nicht erreichbar", "zurückgewiesen", "ungültig", "Beschwerde",
        "Spam-Beschwerde", "als Spam markiert",
        "bloqué", "bloquée", "banni", "bannie", "liste noire", "sur liste noire", "nettoyé",
        "nettoyée", "rebond", "rejeté", "rejetée", "injoignable", "non distribuable", "invalide",
        "plainte", "signalé comme spam", "indésirable",
        "заблокирован", "заблокирована", "заблокировано", "чёрный список", "в чёрном списке",
        "очищен", "очищена", "возврат", "возвращено", "недоставлено", "недоставляемый",
        "не доставляется", "недоступен", "недействителен", "недействительный", "отклонён",
        "жалоба", "жалоба на спам", "пожаловался", "пожаловалась", "спам",
        "차단", "차단됨", "정리됨", "반송", "반송됨", "영구 반송", "하드 바운스", "소프트 바운스",
        "바운스", "발송 실패", "발송 불가", "수신 불가", "자동 삭제", "자동 삭제됨",
        "유효하지 않음", "스팸", "스팸 신고", "신고됨",
    ),
}  # fmt: skip

_STANDINGS: Final = {
    squeezed(word): standing for standing, words in STATUS_WORDS.items() for word in words
}

_KINDS: Final = {
    squeezed(word): reason
    for reason, words in {
        SuppressionReason.GONE: (
            "cleaned", "bounced", "hard bounce", "hard bounced", "by bounces", "unreachable",
            "undeliverable", "invalid", "bounced at", "clean time", "malformed",
            "undeliverability date",
            "bereinigt", "gebounct", "gebounced", "unzustellbar", "nicht zustellbar",
            "nicht erreichbar", "ungültig",
            "nettoyé", "nettoyée", "rebond", "injoignable", "non distribuable", "invalide",
            "очищен", "очищена", "возврат", "возвращено", "недоставлено", "недоставляемый",
            "не доставляется", "недоступен", "недействителен", "недействительный",
            "정리됨", "반송", "반송됨", "영구 반송", "하드 바운스", "바운스", "수신 불가",
            "반송 여부", "유효하지 않음",
        ),
        SuppressionReason.COMPLAINT: (
            "complained", "complaint", "spam", "spam complaint", "marked as spam", "abuse", "junk",
            "complained at",
            "Beschwerde", "Spam-Beschwerde", "als Spam markiert",
            "plainte", "signalé comme spam", "indésirable",
            "жалоба", "жалоба на спам", "пожаловался", "пожаловалась", "спам",
            "스팸", "스팸 신고", "신고됨",
        ),
    }.items()
    for word in words
}  # fmt: skip
"""Words for blocked addresses that say something about the mailbox, or its owner, for any list. The
others, such as `blocklisted`, are decisions of a team about one list."""

_YES: Final = frozenset(map(squeezed, _TRUE_WORDS))
_NO: Final = frozenset(
    map(squeezed, ("", *_FALSE_WORDS, "none", "null", "never", "nil", "na", "nie", "jamais"))
)
_DAY: Final = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\D?.*", re.ASCII)


def blocking_of(word: str) -> Blocking:
    """Return how to suppress an address that is blocked with this word."""
    reason = _KINDS.get(squeezed(word))
    if reason is not None:
        return Blocking(reason.value, everywhere=True)
    return Blocking(f"{shown(word, longest=_LONGEST_WORD)} in the imported file", everywhere=False)


def standing_of(meaning: Meaning, cell: str) -> Standing | None:
    """Return what a cell says about the state of its address. `Invalid` for an unknown word."""
    word = squeezed(cell)
    if meaning is Meaning.IS_SUBSCRIBED:
        return _standing_of_yes_or_no(word, cell.strip())
    if meaning in (Meaning.HAS_UNSUBSCRIBED, Meaning.IS_BLOCKED):
        if _is_no(word):
            return None
        is_blocked = meaning is Meaning.IS_BLOCKED
        return Standing.BLOCKED if is_blocked else Standing.UNSUBSCRIBED
    if not word or word in _STANDINGS or meaning is Meaning.STATE:
        return _STANDINGS.get(word)
    raise Invalid(
        "status",
        f"unknown status {shown(cell.strip())!r}: use confirmed, pending, unsubscribed or blocked",
    )


def _standing_of_yes_or_no(word: str, text: str) -> Standing | None:
    """Return what a cell says that should be a yes or a no: the time of the sign-up is a yes."""
    if not word:
        return None
    if _is_no(word):
        return Standing.UNSUBSCRIBED
    if word in _YES or _DAY.fullmatch(text):
        return Standing.CONFIRMED
    if word in _STANDINGS:
        return _STANDINGS[word]
    raise Invalid("status", f"unknown status {shown(text)!r}: use yes or no")


def _is_no(word: str) -> bool:
    return word in _NO or not word.strip("0")  # databases write 0000-00-00 for no date
