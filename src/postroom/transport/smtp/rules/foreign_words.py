"""Words of other languages for recipients, mailboxes and senders, and for what is wrong with them.

A reply says that a mailbox is dead if a word for it and a word for its state stand close to each
other. The same state close to a word for the sender says nothing about the recipient.
"""

from __future__ import annotations

from typing import Final

_RECIPIENTS: Final = (
    # German
    r"empf(?:ä|ae|a)nger\w*|(?:be)?nutzer(?:in|s|name|konto)?|postf(?:a|ä|ae)ch\w*"
    r"|(?:e-?)?(?:mail-?)?adresse(?!n? ip)|konto|kunde",
    # French
    r"destinataires?|utilisateur|bo[iî]te|compte|bal",
    # Spanish, Portuguese, Italian
    r"destinat[áa]ri[oa]s?|usu[áa]ri[oa]|buz[óo]n|casilla|direcci[óo]n(?! ip)|cuenta|utilizador"
    r"|caixa|endere[çc]o(?! ip)|conta|utente|casella|indirizzo(?! ip)",
    # Dutch
    r"ontvangers?|geadresseerde|gebruiker|postbus|postvak|(?:e-?)?(?:mail-?)?adres",
    # Polish, Czech, Slovak
    r"odbiorc\w+|adresat\w*|u[żz]ytkownik\w*|skrzynk\w+|adresu?|u[žz][ií]vate[lľ]\w*"
    r"|p[řr][íi]jemc\w*|schr[áa]nk\w+|adresa|[úu][čc]et",
    # Russian, Ukrainian
    r"получател\w+|пользовател\w+|ящик\w*|адрес(?:ат)?\w*|аккаунт\w*|уч[её]тн\w+ запис\w+"
    r"|абонент\w*|користувач\w*|скриньк\w+|одержувач\w*",
    # Swedish, Danish, Norwegian, Finnish
    r"mottagar\w+|modtager\w*|mottaker\w*|anv[äa]ndare?n?|bruger(?:en)?|bruker(?:en)?|kontot?"
    r"|adress(?:en)?|postl[åa]da\w*|postkasse\w*|vastaanottaja\w*|k[äa]ytt[äa]j[äa]\w*|osoite\w*"
    r"|postilaatikko\w*",
    # Hungarian, Romanian, Turkish, Greek
    r"felhaszn[áa]l[óo]\w*|c[íi]m(?:zett)?|postafi[óo]k\w*|utilizator\w*|destinatar\w*|c[ăa]su[țţt]a"
    r"|contul|kullan[i\u0131]c[i\u0131]\w*|al[i\u0131]c[i\u0131]\w*|kutusu|hesap\w*|χρήστης|παραλήπτης|διεύθυνση",
    # What they borrow from English
    r"mailbox|account|user|e-?mail",
)
_GONE: Final = (
    r"unbekannt\w*|ung(?:ü|ue|u)ltig\w*|existier(?:t|en) (?:\w+ ){0,2}nicht"
    r"|nicht (?:mehr )?(?:vorhanden|gefunden|bekannt|g[üu]ltig|existent|aktiv|zustellbar|existier)"
    r"|gel(?:ö|oe)scht|deaktiviert|gesperrt|geschlossen|gek(?:ü|ue)ndigt|inaktiv\w*|stillgelegt",
    r"inconnu(?:e?s?)|inexistante?s?|introuvables?|invalides?|incorrecte?s?"
    r"|d[ée]sactiv[ée]+s?|ferm[ée]+s?|suspendue?s?|supprim[ée]+s?|r[ée]sili[ée]+s?|archiv[ée]+s?"
    r"|inacti(?:f|ve)s?|n'existe(?:nt)? (?:pas|plus)|n'est (?:pas|plus) (?:valide|acti|connu"
    r"|attribu|utilis)|non (?:valide|trouv|reconnu|recens|attribu)",
    r"des?conocid[oa]|inexistentes?|inv[áa]lid[oa]s?|deshabilitad[oa]|desactivad[oa]"
    r"|suspendid[oa]|cancelad[oa]|eliminad[oa]|inactiv[oa]|cerrad[oa]"
    r"|no (?:existe|v[áa]lid[oa]|encontrad[oa]|(?:est[áa]|es) (?:activ|v[áa]lid|habilit)\w+"
    r"|se (?:ha )?(?:encontr|encuentr|localiz)\w+)",
    r"desconhecid[oa]|desativad[oa]|desabilitad[oa]|suspens[oa]|inativ[oa]|exclu[íi]d[oa]"
    r"|encerrad[oa]|removid[oa]|n[ãa]o (?:existe|(?:[ée]|est[áa]) (?:v[áa]lid|ativ)\w+"
    r"|(?:foi )?(?:encontrad|localizad)[oa]|v[áa]lid[oa])",
    r"sconosciut[oa]|inesistente|disabilitat[oa]|disattivat[oa]|sospes[oa]|cancellat[oa]|inattiv[oa]"
    r"|rimoss[oa]|cessat[oa]|non (?:esiste|[èe] (?:pi[ùu] )?(?:valid|attiv|present)\w+"
    r"|valid[oa]|trovat[oa]|attiv[oa]|presente|registrat[oa])",
    r"onbekend|ongeldig|opgeheven|opgezegd|uitgeschakeld|gedeactiveerd|verwijderd|inactief|gesloten"
    r"|bestaa[tn] (?:\w+ )?niet|niet (?:meer )?(?:gevonden|bekend|geldig|actief|in gebruik)",
    r"nieznan\w+|nie istniej[eą]|nieaktywn\w+|nieprawid[łl]ow\w+|zablokowan\w+|usuni[ęe]t\w+"
    r"|zawieszon\w+|nie (?:zosta[łl]\w* )?(?:od|z)nalezion\w+|zamkni[ęe]t\w+|neexistuje"
    r"|nezn[áa]m\w+|neplatn\w+|zru[šs]en\w*|nenalezen\w*|nebyl\w* nalezen\w*",
    r"неизвест\w+|не ?существу\w+|не найден\w*|не зарегистрирован\w*|отключ[её]н\w*|заблокирован\w*"
    r"|удал[её]н\w*|закрыт\w*|деактивирован\w*|недействител\w+|неактив\w+|не існує|не знайдено",
    r"ok[äa]nd\w*|ukendt\w*|ukjent\w*|ogiltig\w*|ugyldig\w*|(?:finns|hittades) (?:inte|ej)"
    r"|(?:findes|finnes|eksisterer|fundet|funnet) ikke|ikke (?:findes|finnes|fundet|funnet)"
    r"|avst[äa]ng[dt]\w*|slettet|nedlagt|tuntematon|ei l[öo]ydy\w*|ei ole (?:olemassa|k[äa]yt)\w*",
    r"ismeretlen|nem l[ée]tezik|nem tal[áa]lhat[óo]|[ée]rv[ée]nytelen|megsz[űu]nt|inexistent[ăa]?"
    r"|nu exist[ăa]|necunoscut[ăa]?|dezactivat[ăa]?|bulunamad[i\u0131]|mevcut de[ğg]il"
    r"|ge[çc]ersiz|yok|kapat[i\u0131]ld[i\u0131]|άγνωστ\w+|δεν υπάρχει|δεν βρέθηκε|ανενεργ\w+",
)
_FULL: Final = (
    r"voll|[üu]berschritten|ersch[öo]pft|[üu]berf[üu]llt|pleine?|d[ée]pass\w+|satur[ée]e?"
    r"|llen[oa]|chei[oa]|lotad[oa]|esgotad[oa]|agotad[oa]|exced\w+|superad[oa]|pien[oa]|superat[oa]"
    r"|esaurit[oa]|vol|overschreden|(?:prze)?pe[łl]n\w+|przekroczon\w+|переполнен\w*|превышен\w*"
    r"|заполнен\w*|pln[áaýy]|p[řr]ekro[čc]en\w*|fuldt?|fullt|megtelt|dolu|a[şs][i\u0131]ld[i\u0131]"
)
_STORES: Final = (
    r"speicher\w*|quota|kontingent|espace|cuota|cota|spazio|quotum|limit|квота|kv[óo]ta|kota"
)
_SENDERS: Final = (
    r"absender\w*|exp[ée]diteur|[ée]metteur|remitente|remetente|mittente|afzender\w*|nadawc\w+"
    r"|отправител\w+|відправник\w*|odes[íi]latel\w*|odosielate\w*|avs[äa]ndar\w*|afsender\w*"
    r"|avsender\w*|l[äa]hett[äa]j[äa]\w*|felad[óo]\w*|expeditor\w*|g[öo]nder(?:en|ici)\w*"
    r"|αποστολέα\w*"
)

_CJK_RECIPIENT: Final = (
    r"(?:收件人|收件者|用[户戶]名?|使用者|[邮郵信]箱|[帐帳账][号號户戶]|地址|宛先|受信者|ユーザー?"
    r"|アドレス|メールボックス|アカウント|사용자|수신자|수신인|받는 ?사람|계정|메일함|사서함|주소)"
)
_CJK_GONE: Final = (
    r"(?:不存在|未找到|找不到|[无無]效|禁用|停用|[冻凍]結?|注[销銷]|註銷|[关關][闭閉]|[删刪]除|不正[确確]"
    r"|存在しま?せ?な?[んい]|見つかりません|不明|無効|ありません|使われて|削除|登録されて|いません"
    r"|찾을 ?수 ?없|존재 ?하지|없습니다|없음|유효하지|잘못|휴면|정지|삭제|탈퇴|비활성|해지)"
)
_CJK_GONE_BEFORE: Final = (
    r"(?:[无無]此|查[无無]此|[没沒]有[该該此]|不存在的|[无無]效的?|找不到[该該此]?|未知的?|無効な|存在しない"
    r"|不明な|該当する|없는|존재하지 않는|알 수 없는|잘못된|휴면|탈퇴한?|유효하지 않은)"
)
_CJK_SENDER: Final = (
    r"(?:[发發寄]件[人者]|[发發]信人|[发發]送[者人]|送信者|送信元|差出人|発信者"
    r"|보낸 ?사람|발신자|송신자|발신인)"
)


def _near(one: str, other: str, distance: int) -> tuple[str, str]:
    """Return patterns for two words at most so many characters apart, in either order."""
    return (
        rf"\b(?:{one})\b.{{0,{distance}}}\b(?:{other})(?!\w)",
        rf"\b(?:{other})\b.{{0,{distance}}}\b(?:{one})(?!\w)",
    )


_ALL_RECIPIENTS: Final = "|".join(_RECIPIENTS)
_ALL_GONE: Final = "|".join(_GONE)

SENDER_IS_WRONG: Final = (
    *_near(_SENDERS, _ALL_GONE, 40),
    rf"{_CJK_SENDER}.{{0,12}}{_CJK_GONE}",
    rf"{_CJK_GONE_BEFORE} ?{_CJK_SENDER}",
)
MAILBOX_IS_FULL: Final = (
    *_near(f"{_ALL_RECIPIENTS}|{_STORES}", _FULL, 40),
    r"(?:[邮郵信]箱|空[间間]|容量|配[额額]|メールボックス).{0,12}"
    r"(?:[满滿]|不足|超|用完|いっぱい|一杯|オーバー)",
    r"(?:용량|사서함|메일함).{0,12}(?:초과|가득|부족)",
)
MAILBOX_IS_GONE: Final = (
    *_near(_ALL_RECIPIENTS, _ALL_GONE, 40),
    rf"{_CJK_RECIPIENT}.{{0,12}}{_CJK_GONE}",
    rf"{_CJK_GONE_BEFORE} ?{_CJK_RECIPIENT}|查[无無]此人",
    r"\bkein(?:en?)? (?:\w+ )?(?:benutzer|postfach|empf(?:ä|ae)nger|konto)",
    r"\b(?:aucun|ningún|nenhum|nessun|geen) (?:\w+ )?(?:utilisateur|destinataire|usu[áa]rio|utente"
    r"|gebruiker)",
    r"нет такого|такого (?:\w+ )?(?:нет|не существует)|nie ma takiego",
    # People who have left
    r"ausgeschieden|nicht mehr (?:bei uns|im (?:unternehmen|hause?))|arbeitet nicht mehr"
    r"|ne travaille plus|n'est plus (?:parmi|dans|employ)|a quitt[ée] (?:la|l'|notre)"
    r"|ya no (?:trabaja|labora|pertenece)|n[ãa]o (?:trabalha|faz parte|pertence)|non lavora pi[ùu]"
    r"|werkt (?:hier )?niet meer|niet meer werkzaam|uit dienst|nie pracuje|(?:больше )?не работает",
)
IS_TEMPORARY: Final = (
    r"vor(?:ü|ue)bergehend|temporairement|temporalmente|temporariamente|temporaneamente|tijdelijk"
    r"|momentan(?:ei)?|chwilowo|tymczasowo|временно|тимчасово|do[čc]asn[ěe]|tillf[äa]lligt"
    r"|midlertidigt?|tilap[äa]isesti|ge[çc]ici|一時的|暂时|暫時|일시"
)
