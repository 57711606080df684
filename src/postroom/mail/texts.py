"""What Postroom itself says in mails, by language. A language that is not here is English."""

# The apostrophe of French is meant.
# ruff: noqa: RUF001

from __future__ import annotations

from typing import Final

import msgspec

from postroom.domain.languages import known_language


class Texts(msgspec.Struct, frozen=True, kw_only=True):
    """`{list}` is the description of the list, `{email}` the recipient's address."""

    language: str
    why: str
    unsubscribe: str
    confirm_subject: str
    hello: str
    asked: str
    please: str
    button: str
    or_copy: str
    ignore: str


_ALL: Final = (
    Texts(
        language="en",
        why="You receive this email because you subscribed to {list}.",
        unsubscribe="Unsubscribe",
        confirm_subject="Please confirm your subscription to {list}",
        hello="Hello,",
        asked="Someone, most likely you, asked us to send {list} to {email}.",
        please="Please confirm that you want to receive it:",
        button="Confirm subscription",
        or_copy="If the button does not work, open this address in your browser:",
        ignore="If it was not you, just ignore this email: you will not be subscribed.",
    ),
    Texts(
        language="fr",
        why="Vous recevez cet e-mail à la suite de votre abonnement à {list}.",
        unsubscribe="Se désabonner",
        confirm_subject="Veuillez confirmer votre abonnement à {list}",
        hello="Bonjour,",
        asked="Quelqu’un, sans doute vous, a demandé l’envoi de {list} à l’adresse {email}.",
        please="Veuillez confirmer que vous souhaitez le recevoir :",
        button="Confirmer l’abonnement",
        or_copy="Si le bouton ne fonctionne pas, ouvrez cette adresse dans votre navigateur :",
        ignore="Si ce n’était pas vous, ignorez cet e-mail : aucun abonnement ne sera enregistré.",
    ),
    Texts(
        language="de",
        why="Sie erhalten diese E-Mail, weil Sie {list} abonniert haben.",
        unsubscribe="Abmelden",
        confirm_subject="Bitte bestätigen Sie Ihr Abonnement: {list}",
        hello="Guten Tag,",
        asked="jemand, wahrscheinlich Sie selbst, möchte {list} an {email} erhalten.",
        please="Bitte bestätigen Sie, dass Sie das wünschen:",
        button="Abonnement bestätigen",
        or_copy="Falls die Schaltfläche nicht funktioniert, öffnen Sie diese Adresse im Browser:",
        ignore="Falls Sie es nicht waren, ignorieren Sie diese E-Mail einfach: "
        "Sie werden dann nicht angemeldet.",
    ),
    Texts(
        language="ko",
        why="{list} 구독을 신청하셨기 때문에 이 이메일을 보내 드립니다.",
        unsubscribe="구독 해지",
        confirm_subject="구독 확인 요청: {list}",
        hello="안녕하세요.",
        asked="{email} 주소로 {list} 구독 신청이 접수되었습니다.",
        please="구독을 원하시면 아래에서 확인해 주세요.",
        button="구독 확인",
        or_copy="버튼이 작동하지 않으면 브라우저에서 다음 주소를 열어 주세요.",
        ignore="신청하신 적이 없다면 이 이메일을 무시하세요. 구독되지 않습니다.",
    ),
    Texts(
        language="ru",
        why="Вы получили это письмо, потому что подписались на рассылку «{list}».",
        unsubscribe="Отписаться",
        confirm_subject="Подтвердите подписку: {list}",
        hello="Здравствуйте!",
        asked="Кто-то (скорее всего, вы) попросил присылать рассылку «{list}» на адрес {email}.",
        please="Пожалуйста, подтвердите, что хотите её получать:",
        button="Подтвердить подписку",
        or_copy="Если кнопка не работает, откройте этот адрес в браузере:",
        ignore="Если это были не вы, просто проигнорируйте это письмо: "
        "подписка не будет оформлена.",
    ),
)
_BY_LANGUAGE: Final = {each.language: each for each in _ALL}


def texts_in(language: str) -> Texts:
    """The texts in a language such as `fr` or `fr-CA`."""
    return _BY_LANGUAGE[known_language(language) or "en"]
