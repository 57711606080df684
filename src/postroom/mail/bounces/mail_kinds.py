"""The kinds of email that arrive at a bounce address: bounces, delays, complaints, automatic
replies, challenges and ordinary email.

Words alone prove nothing: newsletters, parcel services and people write "could not be delivered",
too. An email without a machine-readable part is a bounce only if two things hold. Its sender is
a mail system, or the envelope says so (a null return path). And it returns something: the email, an
address in a known format, or the reply of a mail server.
"""

from __future__ import annotations

import re
from email.message import Message
from email.utils import parseaddr
from enum import StrEnum

from postroom.mail.bounces.returned_text import header_text, returns_email, text_of
from postroom.mail.bounces.status_reports import other_actions

_DAEMON = re.compile(
    r"mailer[- ]?daemon|post[ _-]?master|mail(er)?[-_. ]?(delivery|system|admin|gateway|service)"
    r"|mdaemon|mail delivery|system administrator|delivery subsystem|^ndr@|^bounces?@"
    r"|virus.*gateway|system(administrator|beheerder)|administra(teur|dor|tore) d\w+ s[iy]st[eè]m",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"undeliver|returned mail|return(ed|ing) (to|message)|failure notice|fail(ed|ure)\b.{0,20}mail"
    r"|(mail|message)\b.{0,20}\bfail|deliver\w*\b.{0,30}\b(fail|error|status|report|delay|warning"
    r"|problem|notif)|(fail|error|delay)\w*\b.{0,20}\bdeliver|not? ?n?-?deliver|non remis"
    r"|could not (be )?deliver|delayed mail|message delayed|mail system error|user unknown"
    r"|nameserver error|processing error|unzustellbar|nicht zugestellt|no entregado|non consegnat"
    r"|не ?доставлен|メール(送信)?エラー|配信(不能|失敗|でき)|不達|退信|投递失败|無法(投遞|送達)"
    r"|반송|(배달|전송|전달) ?(실패|되지)|недоставлен|ошибка доставки",
    re.IGNORECASE,
)
_FAILED_TEXT = re.compile(
    r"(not|n't|unable to|could ?n[o']t|cannot|can't|failed to|problems? to|fail\w*)\b"
    r".{0,60}\bdeliver|deliver\w*\b.{0,80}\b(fail|error|problem|impossible|unsuccessful|delay|postponed|rejected)"
    r"|undeliver|did not reach|could not be (sent|reached|processed)|returned (to you|because|mail)"
    r"|permanent (fatal )?error|has been rejected|was not accepted|user (is )?unknown|unknown user"
    r"|mailbox (is )?(full|unavailable)|no such user|не может быть доставлено|无法发送",
    re.IGNORECASE | re.DOTALL,
)
_FAILED_ABROAD = re.compile(
    r"(remise|livraison|distribution) .{0,20}(impossible|[ée]chou)|[ée]chec d'(envoi|acheminement)"
    r"|message non (d[ée]livr|distribu|remis)|(entrega|entreg[ao]) .{0,10}(fallid|rechazad|fracass)"
    r"|(mensaje|correo|mensagem|e-?mail) (ha sido |foi )?(devuelt|devolvid|rechazad|rejeitad)"
    r"|mancata consegna|consegna .{0,20}(fallita|non riuscita)|nicht (an .{1,80})?zugestellt"
    r"|nicht erreicht werden|zustellung .{0,40}(fehlgeschlagen|nicht m[öo]glich)"
    r"|(bezorging|aflevering) .{0,20}mislukt|niet (bezorgd|afgeleverd)|oleverer?bar"
    r"|(невозможно|ошибка|не ?удалась) доставк|недоставлен|невозможно доставить"
    r"|не (может быть|был\w?) доставлен|反送|반송|(배달|전송|전달) ?(실패|되지)"
    r"|(无法|無法|不能|未能)(投[递遞]|送[达達]|[发發]送)"
    r"|退[回信]|配信(不能|失敗|でき)|届け(でき|られ)ません|送信できません"
    r"|onbestelbaar|(niet|kan niet) worden (bezorgd|afgeleverd)|(nicht|konnte nicht) zugestellt"
    r"|unzustellbar|remise .{0,40}(impossible|[ée]chou)|[ée]chec de (la )?remise"
    r"|pas pu [êe]tre remis"
    r"|(no se|no ha|no) .{0,20}(pudo|puede|podido) entregar|no entreg|impossibile recapitare"
    r"|(non|mancato) recapit|n[ãa]o .{0,20}(poss[íi]vel|p[ôo]de|foi) .{0,10}entreg|falha na entrega"
    r"|n[ãa]o entregue|nie mo[żz]na dostarczy|niedostarcz|nie dostarczon"
    r"|(kunde|kan) inte levereras|g[åa]r? inte att leverera|(kan|kunne) ikke leveres|ikke levert"
    r"|nedoru[čc]|nelze doru[čc]it|nemohla b[ýy]t doru[čc]ena|ei voi(tu)? toimittaa"
    r"|teslim edile|k[ée]zbes[íi]thet|не уда(ется|лось) доставить|не доставлен",
    re.IGNORECASE | re.DOTALL,
)
"""What mail systems say in other languages. Parcel services say it, too: it counts only if the
sender is a mail system."""
_AWAY = re.compile(
    r"^(auto(matic|matisch\w*|mated)?[-: ]|out of (the )?office|\[?auto)|automatic reply"
    r"|auto(matic)?[- ]?(reply|response|respond)|out of (the )?office|on vacation|away from"
    r"|abwesen|nicht im b[üu]ro|automatische antwort"
    r"|absence\b|absente? du bureau|r[ée]ponse automatique|en cong[ée]s?\b"
    r"|respuesta autom|contestaci[óo]n autom|fuera de (la )?oficina|\bausen(te|cia)\b|de vacaciones"
    r"|risposta automatica|fuori (dall')?ufficio|fuori sede|\bassen(te|za)\b|in ferie"
    r"|automatisch antwoord|afwezig|buiten kantoor|niet aanwezig"
    r"|resposta autom[áa]tica|\baus[êe]n(te|cia)\b|fora do escrit[óo]rio|de f[ée]rias"
    r"|autosvar|automatiskt? svar|fr[åa]nvaro|fraværende|poissa|automaattinen"
    r"|automatyczna odpowied|nieobecn|poza biurem|automatick[áa] odpov|mimo kancel"
    r"|автоответ|автоматический ответ|отсутстви|нет на месте|otomatik yan|ofis d.ş."
    r"|不在|自動(返信|応答|回覆)|自动回复|休假|부재중|자동 ?(회신|응답)",
    re.IGNORECASE,
)
_CHALLENGE = re.compile(
    r"(confirm|verify|prove|authenticate)\b.{0,60}\b(you are|you're|your (message|e-?mail) (was|is)"
    r"|human|real person|not (a )?spam|delivery of (your|this) (message|e-?mail))"
    r"|boxtrapper|spam ?arrest|tmda"
    r"|requires (that you )?(verif|confirm)\w* (your|the) (e-?mail|sender|message)"
    r"|click .{0,60}(to deliver|release) (your|this) message|qconfirm"
    r"|(has been|was) waitlisted|add(ed)? .{0,60}\b(guest|allowed|approved|white)\s?list",
    re.IGNORECASE | re.DOTALL,
)
_STILL_TRYING = re.compile(
    r"attempts will continue|will (be retried|keep trying|continue (to|trying))|still being retried"
    r"|(still|is) awaiting delivery|warning( message)? only|just a warning"
    r"|only a notification about|no action is required|you do not need to (resend|take)",
    re.IGNORECASE,
)
_GAVE_UP = re.compile(
    r"(gave|given|giving) up|no longer (be )?(tr(y|ied)|retried)|not (going to|be) (re)?tr(y|ied)"
    r"|permanent(ly)? (fatal )?(error|fail)|could not be delivered|was not delivered|undeliverable",
    re.IGNORECASE,
)
_REPLY = re.compile(
    r"(?<![\w.:-])5[0-9]{2}[ -]+(?=[#5a-z<'\"])|(?<![\w.])5\.[0-9]{1,3}\.[0-9]{1,3}(?![.\w])",
    re.IGNORECASE,
)
_RECIPIENT = re.compile(
    r"^[ \t>]*(((rcpt )?to|(final-)?recipient):[ \t]*)?"
    r"[<\"'(]?[^\s<>\"'@]+@[^\s<>\"'@]+[>\"')]?[:.,]?[ \t]*(\([^()\n]{1,200}\))?$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with nothing but an address, or with a reason in brackets after it."""
_LIST_HEADERS = ("list-id", "list-unsubscribe", "list-unsubscribe-post", "feedback-id")
_RETURNED = ("message/rfc822", "text/rfc822-headers", "message/rfc822-headers")
_ANSWER = ("re:", "fw:", "fwd:", "aw:", "wg:", "tr:", "rv:", "sv:", "antw:", "odp:")


class MailKind(StrEnum):
    """What an email is."""

    BOUNCE = "bounce"
    DELAY = "delay"
    COMPLAINT = "complaint"
    AUTO_REPLY = "auto-reply"
    CHALLENGE = "challenge"
    ORDINARY = "ordinary"


def mail_kind_of(message: Message, text: str, *, has_reports: bool) -> MailKind:
    """Return what an email is. `text` is what its sender wrote; `has_reports`: it says in a
    machine-readable form that an email was not delivered."""
    feedback = _feedback_type(message)
    if feedback is not None:
        return MailKind.COMPLAINT if feedback in _COMPLAINTS else MailKind.ORDINARY
    if has_reports:
        is_challenge = _CHALLENGE.search(text) and not _is_daemon(message)
        return MailKind.CHALLENGE if is_challenge else MailKind.BOUNCE
    if actions := other_actions(message):
        return MailKind.DELAY if "delayed" in actions else MailKind.ORDINARY
    subject = header_text(message, "subject")
    if not _is_list_mail(message):
        if _CHALLENGE.search(f"{subject}\n{text}") and not _is_daemon(message):
            return MailKind.CHALLENGE
        if _is_automatic(message, subject, text):
            return MailKind.AUTO_REPLY
    if not _looks_bounced(message, subject, text):
        return MailKind.ORDINARY
    said = f"{subject}\n{text}"
    is_delay = _STILL_TRYING.search(said) and not _GAVE_UP.search(said)
    return MailKind.DELAY if is_delay else MailKind.BOUNCE


_COMPLAINTS = frozenset({"abuse", "fraud", "opt-out", "opt-out-list", "other", "virus", ""})
"""RFC 5965 7.3, RFC 6430: not `not-spam`, `auth-failure` or `dmarc`."""


def _feedback_type(message: Message) -> str | None:
    """Return the type of a feedback report in lower case; None if the email has none."""
    for part in message.walk():
        if part.get_content_type() == "message/feedback-report":
            payload = part.get_payload()
            text = str(payload[0]) if isinstance(payload, list) and payload else text_of(part)
            found = re.search(r"^feedback-type:[ \t]*([\w-]+)", text, re.I | re.M)
            return found[1].lower() if found else ""
    return None


def _is_report(message: Message) -> bool:
    """Return whether it is a report, other than that someone has read the email (RFC 8098)."""
    kind = str(message.get_param("report-type", "")).lower()
    return message.get_content_type() == "multipart/report" and "disposition" not in kind


def _is_daemon(message: Message) -> bool:
    name, address = parseaddr(header_text(message, "from"))
    return bool(_DAEMON.search(f"{address} {name}")) or not address


def _is_automatic(message: Message, subject: str, text: str) -> bool:
    """Return whether a program replied for a person (RFC 3834)."""
    automatic = header_text(message, "auto-submitted").lower()
    if _is_report(message):
        return False
    if _is_daemon(message) and (_SUBJECT.search(subject) or _says_failed(message, subject, text)):
        return False
    return (
        message.get_content_type() == "multipart/report"
        or automatic.startswith(("auto-replied", "auto-notified"))
        or any(name in message for name in ("x-autoreply", "x-autorespond", "x-autoresponder"))
        or header_text(message, "precedence").lower() == "auto_reply"
        or bool(_AWAY.search(subject))
    )


def _looks_bounced(message: Message, subject: str, text: str) -> bool:
    if "x-failed-recipients" in message:
        return True
    failed = _says_failed(message, subject, text)
    if _is_report(message) and failed:
        return True
    named = bool(_SUBJECT.search(subject))
    returns = returns_email(message) or _returns_to_us(message)
    if _is_list_mail(message):  # or a bounce that has passed through a mailing list
        return _is_daemon(message) and (failed or named) and returns
    if _is_daemon(message):
        named = named or bool(_FAILED_ABROAD.search(subject))
        return (failed or named) and (
            returns
            or bool(_REPLY.search(text) or _RECIPIENT.search(text))
            or (failed and named and "@" in text)
        )
    # Someone who writes about a bounce replies to it, or is a person with an address.
    if "in-reply-to" in message or subject.lower().startswith(_ANSWER):
        return bool(re.search(r"\(delivery failed\)\s*$", subject)) and failed
    return named and failed and _returns_to_us(message)


def _says_failed(message: Message, subject: str, text: str) -> bool:
    if _FAILED_TEXT.search(text):
        return True
    return _is_daemon(message) and bool(_FAILED_ABROAD.search(f"{subject}\n{text}"))


def _is_list_mail(message: Message) -> bool:
    return any(name in message for name in _LIST_HEADERS)


def _returns_to_us(message: Message) -> bool:
    if header_text(message, "return-path").replace(" ", "") == "<>":
        return True
    if any(part.get_content_type() in _RETURNED for part in message.walk()):
        return True
    from flufl.bounce import all_failures

    temporary, permanent = all_failures(message)
    return bool(temporary or permanent)
