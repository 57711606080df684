"""Words of other languages for recipients, mailboxes and senders, and for what is wrong with them.

A reply says that a mailbox is dead if a word for it and a word for its state stand close to each
other. The same state close to a word for the sender says nothing about the recipient.
"""

from __future__ import annotations

from typing import Final

_RECIPIENTS: Final = (
    # German
    r"empf(?:ä|ae|a)nger\w*|zieladresse|(?:be)?nutzer(?:in|s|name|konto)?|postf(?:a|ä|ae)ch\w*"
    r"|(?:e-?)?(?:mail-?)?adress(?:e|at)\w*(?!n? ip)|(?:\w+-?)?konto|kunde",
    # French
    r"destinataires?|utilisateur|bo[iî]te|compte|adresse|bal",
    # Spanish, Portuguese, Italian
    r"destinat[áa]ri[oa]s?|usu[áa]ri[oa]|buz[óo]n|casilla|direcci[óo]n(?! ip)|cuenta|utilizador"
    r"|caixa|endere[çc]o(?! ip)|conta|utente|utenza|casella|indirizz[oi](?! ip)|destin",
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
    r"|postilaatikko\w*|s[äa]hk[öo]postiosoite\w*|tunnus\w*|konto(?:en|et)|postkassen?",
    # Hungarian, Romanian, Turkish, Greek
    r"felhaszn[áa]l[óo]\w*|c[íi]m(?:zett)?|postafi[óo]k\w*|utilizator\w*|destinatar\w*"
    r"|c[ăa]su[țţt]a|contul|kullan[i\u0131]c[i\u0131]\w*|al[i\u0131]c[i\u0131]\w*|kutusu|hesap\w*"
    r"|χρήστης|παραλήπτης|διεύθυνση|λογαριασμός",
    # What they borrow from English
    r"mailbox|account|user|e-?mail",
)
# Not in the directory of users: said without naming anybody, it is about the recipient
_NOT_LISTED: Final = (
    r"nicht im (?:\w+-?)?verzeichnis|pas (?:\w+ )?dans l'annuaire"
    r"|no (?:se (?:ha )?enc[uo]\w+|est[áa]|figura|aparece) en (?:el |la |nuestr[oa] )?(?:directorio"
    r"|libreta|lista de usuarios)"
    r"|n[ãa]o (?:est[áa]|consta|(?:foi )?encontrad[oa]) n[oa] (?:diret[óo]rio|cat[áa]logo)"
    r"|non (?:[èe] )?(?:presente|trovat[oa]|elencat[oa]) (?:nella rubrica|nell'elenco)"
)
_GONE: Final = (
    r"unbekannt\w*|ung(?:ü|ue|u)ltig\w*|existier(?:t|en) (?:\w+ ){0,2}nicht"
    r"|nicht (?:mehr )?(?:vorhanden|gefunden|bekannt|g(?:ü|u|ue)ltig|existent|aktiv|zustellbar"
    r"|existier|verwendet|genutzt|benutzt|erreichbar|in betrieb|angelegt|eingerichtet|aktiviert"
    r"|verf(?:ü|ue)gbar|registriert|in gebrauch)|gel(?:ö|oe)scht|deaktiviert|gesperrt|geschlossen"
    r"|gek(?:ü|ue)ndigt|inaktiv\w*|stillgelegt|abgelaufen|abgeschaltet|abgemeldet|aufgel(?:ö|oe)st"
    r"|unzustellbar|falsch|entfernt|gibt es nicht",
    r"inconnu(?:e?s?)|inexistante?s?|introuvables?|invalides?|incorrecte?s?|d[ée]sactiv[ée]+s?"
    r"|ferm[ée]+s?|suspendue?s?|supprim[ée]+s?|r[ée]sili[ée]+s?|archiv[ée]+s?|inacti(?:f|v[ée])s?"
    r"|n'(?:existe|accepte)(?:nt)? (?:pas|plus)|n'est (?:pas|plus) (?:valide|valable|acti|connu"
    r"|attribu|utilis|en service|disponible)\w*|(?:non|pas|plus) (?:valide|trouv|reconnu|recens"
    r"|attribu|connu|exist|activ)\w*|n'a (?:pas|pu) \w+ trouv\w+|erron[ée]+s?|bloqu[ée]+s?"
    r"|expir[ée]+s?|cl[ôo]tur[ée]+s?|non exist\w+|obsol[èe]te|ne re[çc]oit plus",
    r"des?conocid[oa]s?|inexistentes?|inv[áa]lid[oa]s?|deshabilitad[oa]|desactivad[oa]"
    r"|inhabilitad[oa]|bloquead[oa]|expirad[oa]|caducad[oa]|dad[oa] de baja|de baja|errone[oa]"
    r"|err[óo]ne[oa]|incorrect[oa]|ya no|no pertenece|no dispon\w+|no registrad[oa]"
    r"|no reconocid[oa]|no habilitad[oa]|suspendid[oa]|cancelad[oa]|eliminad[oa]|inactiv[oa]"
    r"|cerrad[oa]|no (?:existe\w?|v[áa]lid[oa]|encontrad[oa]|(?:est[áa]|es|fue) (?:activ|v[áa]lid"
    r"|habilit|encontr|registr|dispon)\w+|se (?:ha |pudo )?(?:encontr|encuentr|localiz)\w+)",
    r"j[áa] n[ãa]o|n[ãa]o (?:est[áa] |[ée] )?mais|desconhecid[oa]|desativad[oa]|desabilitad[oa]"
    r"|suspens[oa]|inativ[oa]|exclu[íi]d[oa]|encerrad[oa]|removid[oa]|incorret[oa]"
    r"|indispon[íi]ve[li]s?|n[ãa]o (?:cadastrad[oa]|reconhecid[oa]|dispon[íi]vel"
    r"|(?:foi )?(?:poss[íi]vel )?(?:encontr|localiz)\w+)|n[ãa]o (?:existe|(?:[ée]"
    r"|est[áa]) (?:v[áa]lid|ativ)\w+|(?:foi )?(?:encontrad|localizad)[oa]|v[áa]lid[oa])",
    r"non (?:[èe] |riceve )?pi[ùu]|sconosciut[oa]|inesistente|disabilitat[oa]|disattivat[oa]"
    r"|sospes[oa]|cancellat[oa]|inattiv[oa]|rimoss[oa]|cessat[oa]|errat[oa]|bloccat[oa]|scadut[oa]"
    r"|dismess[oa]|chius[oa]|eliminat[oa]|disat+ivat[oa]|non valid[oi]|non (?:abilitat|riconosciut"
    r"|disponibil|utilizzat)\w+|non (?:esist\w+|[èe] (?:pi[ùu] )?(?:valid|attiv|present)\w+"
    r"|valid[oa]|trovat[oa]|attiv[oa]|presente|registrat[oa])",
    r"(?:wordt |is )?niet meer|onbekende?|ongeldige?|opgeheven|opgezegd|uitgeschakeld"
    r"|gedeactiveerd|verwijderd|inactief|gesloten|geblokkeerd|verlopen|onjuist"
    r"|bestaa[tn] (?:\w+ )?niet|niet (?:meer |langer )?(?:beschikbaar|bestaand|geregistreerd"
    r"|gevonden|bekend|geldig|actief|in gebruik)",
    r"nie jest ju[żz]|ju[żz] nie|nie jest dost[ęe]pn\w+|(?:ji[žz]|u[žz]) (?:se )?ne\w+|nieznan\w+"
    r"|nie istniej[eą]\w*|b[łl][ęe]dn\w+|niepoprawn\w+|wygas[łl]\w*|wy[łl][ąa]czon\w+"
    r"|nie jest (?:aktywn|obs[łl]ugiwan|u[żz]ywan)\w+|nieistniej\w+|nieaktywn\w+"
    r"|nieprawid[łl]ow\w+|zablokowan\w+|usuni[ęe]t\w+|zawieszon\w+|nie (?:zosta[łl]\w* )?(?:od"
    r"|z)nalezion\w+|zamkni[ęe]t\w+|neexistuje|neexistuj\w+|neaktivn\w+|zablokov[áa]n\w*"
    r"|nezn[áa]m\w+|neplatn\w+|zru[šs]en\w*|nenalezen\w*|nebyl\w* nalezen\w*",
    r"больше не|більше не|неизвест\w+|отсутству\w+|неверн\w+|некорректн\w+|приостановлен\w*"
    r"|не обслуж\w+|не принимает|недоступ\w+|несуществу\w+|заблоковано|видалено|не ?существу\w+"
    r"|не найден\w*|не зарегистрирован\w*|отключ[её]н\w*|заблокирован\w*|удал[её]н\w*|закрыт\w*"
    r"|деактивирован\w*|недействител\w+|неактив\w+|не існує|не знайдено",
    r"ok[äa]nd\w*|ukendt\w*|ukjent\w*|ogiltig\w*|ugyldig\w*|(?:finns|hittades) (?:inte|ej)"
    r"|(?:findes|finnes|eksisterer|fundet|funnet) ikke|ikke (?:findes|finnes|fundet|funnet)|saknas"
    r"|sp[äa]rra\w+|felaktig\w*|inaktiv\w*|inaktiver\w*|deaktiver\w+|st[äe]ng[dt]\w*|lukket"
    r"|sperret|sp[æa]rret|forkert|virheelli\w+|suljet\w+|poistet\w+|ei ole k[äa]yt\w+"
    r"|ikke gyldig\w*|avst[äa]ng[dt]\w*|slettet|nedlagt|(?:inte|ikke) l[äeæ]n(?:gre|gere|ger)"
    r"|ikke lenger|avslut\w+|tuntematon|ei l[öo]ydy\w*|ei ole (?:olemassa|k[äa]yt)\w*",
    r"ismeretlen|letiltott|letiltva|t[öo]r[öo]lt\w*|hib[áa]s|nincs ilyen|nem l[ée]tez\w+"
    r"|blocat[ăa]?|suspendat[ăa]?|gre[șşs]it[ăa]?|kullan[i\u0131]m d[i\u0131][şs][i\u0131]|pasif"
    r"|silinmi[şs]|hatal[i\u0131]|tan[i\u0131]ml[i\u0131] de[ğg]il|ask[i\u0131]ya|μη έγκυρ\w+"
    r"|άκυρ\w+|nem l[ée]tezik|nem tal[áa]lhat[óo]|[ée]rv[ée]nytelen|megsz[űu]nt|inexistent[ăa]?"
    r"|nu exist[ăa]|necunoscut[ăa]?|dezactivat[ăa]?|bulunamad[i\u0131]|mevcut de[ğg]il|nu mai"
    r"|art[i\u0131]k|kapat[i\u0131]lm[i\u0131][şs]|πλέον|ge[çc]ersiz|yok|kapat[i\u0131]ld[i\u0131]"
    r"|άγνωστ\w+|δεν υπάρχει|δεν βρέθηκε|ανενεργ\w+",
    _NOT_LISTED,
)
# "The user has no account": said of the reader, it is about the sender
_HAS_NO: Final = (
    r"hat kein(?:en)?|n'a pas d[e']|ne poss[èe]de pas(?: d[e'])?|no (?:tiene|posee)|n[ãa]o (?:tem"
    r"|possui)|non ha|heeft geen|nie ma|nem[áa]|har (?:inget|ingen|ikke)|ei ole|nu are"
)
_YOU_HAVE_NO: Final = (
    r"\b(?:sie haben kein|vous n'avez|(?:usted|ud\.?) no tiene|voc[êe] n[ãa]o tem|lei non ha"
    r"|u heeft geen|nie masz|(?:\u0443 вас|вы не) )"
)
# Domains, and "email" as an address: only if they do not exist, as both can be blocked or deleted
_PLACES: Final = (
    r"correo(?: electr[óo]nico)?|correio(?: eletr[ôo]nico)?|dom(?:a|ä|ae)ne?|domain|domaine"
    r"|dom[íi]nio|domein|domen[ay]?|dom[ée]n[ay]|домена?|dom[äæe]ne(?:n|t)?|domeniul"
    r"|alan ad[i\u0131]|τομέας|verkkotunnus\w*"
)
_NOT_THERE: Final = (
    r"unbekannte?|existiert nicht|nicht gefunden|ung[üu]e?ltige?|inconnue?|n'existe (?:pas|plus)"
    r"|introuvable|invalide|des?conocido|no (?:existe|encontrado|es v[áa]lido)|inexistente"
    r"|inv[áa]lido|desconhecido|n[ãa]o (?:existe|encontrado)|sconosciuto|inesistente|non (?:esiste"
    r"|trovato|valido)|bestaat niet|onbekende?|niet gevonden|nie istnieje|nieznan[ay]|neexistuje"
    r"|не существует|не найден|неизвестный|не існує|не знайдено|finns inte|fin[dn]es ikke"
    r"|ei ole olemassa|nem l[ée]tezik|nu exist[ăa]|bulunamad[i\u0131]|δεν υπάρχει|ok[äa]nd|ukendt"
    r"|ukjent|tuntematon"
)
_FULL: Final = (
    r"voll|[üu]berschritten|ersch[öo]pft|[üu]berf[üu]llt|pleine?|d[ée]pass\w+|satur[ée]e?|llen[oa]"
    r"|chei[oa]|lotad[oa]|esgotad[oa]|agotad[oa]|exced\w+|superad[oa]|pien[oa]|superat[oa]"
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
    # Us: our address, or that of our server
    r"|ip[- ]?adres\w*|adres+e? ip|adres ip|ip[- ]?адрес\w*|адрес ip|ihre (?:e-?mail-?)?adresse"
    r"|votre (?:adresse|compte|serveur)|su (?:direcci[óo]n|correo|cuenta|servidor)"
    r"|(?:o )?seu (?:e-?mail|endere[çc]o|servidor)|(?:il )?tuo (?:indirizzo|account)|(?:indirizzo"
    r"|direcci[óo]n|endere[çc]o) ip|tw[oó]j adres|ваш\w* (?:адрес|сервер|аккаунт|письмо|ip)\w*"
    r"|uw (?:e-?mail)?adres|din adress"
)

_CJK_RECIPIENT: Final = (
    r"(?:收件人|收件者|用[户戶]名?|使用者|[邮郵信]箱|[帐帳账][号號户戶]|地址|宛先|受信者|ユーザー?"
    r"|アドレス|メールボックス|アカウント|사용자|수신자|수신인|받는 ?사람|계정|메일함|사서함|주소)"
)
_CJK_DOMAIN: Final = r"(?:域名|网域|網域|ドメイン|도메인)"
_CJK_GONE: Final = (
    r"(?:不存在|未找到|找不到|[没沒]有找到|[无無]法找到|不合法|非法|[无無]法[识識][别別]"
    r"|[错錯][误誤]|未激活|未[启啟]用|已?被[封锁鎖]|离职|離職|[无無]效|禁用|停用|[冻凍]結?|注[销銷]"
    r"|註銷|[关關][闭閉]|[删刪]除|不正[确確]|有効では|使用されていません|退会|解約|停止|利用でき"
    r"|存在しま?せ?な?[んい]|見つかりません|不明|無効|ありません|使われて|削除|登録されて|いません"
    r"|찾을 ?수 ?없|존재 ?하지|없습니다|없음|사용할 ?수 ?없|사용 ?중지|유효하지|잘못|휴면|정지|삭제"
    r"|탈퇴|비활성|해지)"
)
_CJK_GONE_BEFORE: Final = (
    r"(?:[无無]此|查[无無]此|[没沒]有[该該此]|不存在的|[无無]效的?|找不到[该該此]?|未知的?|無効な"
    r"|存在しない|不明な|該当する|없는|등록되지 ?않은|사용하지 ?않는|존재하지 않는|알 수 없는"
    r"|잘못된|휴면|탈퇴한?|유효하지 않은)"
)
_CJK_SENDER: Final = (
    r"(?:[发發寄]件[人者]|[发發]信人|[发發]送[者人]|送信者|送信元|差出人|発信者|IP ?(?:地址"
    r"|アドレス|주소)|[您你]的(?:地址|IP|[邮郵]件|服[务務]器)|귀하의|보낸 ?사람|발신자|송신자"
    r"|발신인)"
)


def _near(one: str, other: str, distance: int) -> tuple[str, str]:
    """Return patterns for two words at most so many characters apart, in either order."""
    return (
        rf"\b(?:{one})\b.{{0,{distance}}}\b(?:{other})(?!\w)",
        rf"\b(?:{other})\b.{{0,{distance}}}\b(?:{one})(?!\w)",
    )


_ALL_RECIPIENTS: Final = "|".join(_RECIPIENTS)
_ALL_GONE: Final = "|".join(_GONE)

A_DOMAIN: Final = r"(?:[\w-]{1,63}\.){1,6}\w{2,24}"
A_NAME: Final = (
    r"(?:^|[.:!?] )(?:5..[ -])?(?:5\.\d+\.\d+ )?(?!(?:it|this|that|page|file|records?|keys?|policy"
    r"|selector|server|host|sender|spf|dkim|dmarc|mx|ptr|dns|certificate)\b)[^\s@]{1,64}"
)
"""One word at the beginning of a sentence: Exchange names the recipient by what is before the @."""

SENDER_IS_WRONG: Final = (
    _YOU_HAVE_NO,
    *_near(_SENDERS, _ALL_GONE, 40),
    rf"{_CJK_SENDER}.{{0,12}}{_CJK_GONE}",
    rf"{_CJK_GONE_BEFORE} ?{_CJK_SENDER}",
)
MAILBOX_IS_FULL: Final = (
    *_near(f"{_ALL_RECIPIENTS}|{_STORES}", _FULL, 40),
    r"(?:[邮郵信]箱|空[间間]|容量|配[额額]|メールボックス).{0,12}(?:[满滿]|不足|超|用完|いっぱい"
    r"|一杯|オーバー)",
    r"(?:용량|사서함|메일함).{0,12}(?:초과|가득|부족)",
    r"\b(?:нет|недостаточно) (?:\w+ )?места|brak (?:\w+ )?miejsca|no hay (?:\w+ )?espacio"
    r"|sin espacio|kein (?:\w+ )?(?:platz|speicher)|plus (?:d'espace|de place)|sem espa[çc]o",
)
MAILBOX_IS_GONE: Final = (
    *_near(_ALL_RECIPIENTS, _ALL_GONE, 40),
    rf"{_CJK_RECIPIENT}.{{0,12}}{_CJK_GONE}",
    rf"{_CJK_GONE_BEFORE} ?{_CJK_RECIPIENT}|查[无無]此人",
    rf"\b(?:kein(?:en?)?|aucune?|ning[úu]na?|nenhum[ao]?|nessun[ao]?|geen|brak|ingen|inget|nincs"
    rf"|pas d(?:e |')"
    r"|(?:нет|немає|nie ma|no hay|n[ãa]o h[áa]|non c'[èe])(?: \w+)?) ?(?:\w+ )?"
    rf"(?:{_ALL_RECIPIENTS})(?!\w)(?! (?:da|für)\b)",
    r"(?:нет|немає) такого|такого (?:\w+ )?(?:нет|не существует)|nie ma taki(?:ego|ej)|\bniemand\b"
    r"|no hay nadie",
    # "The user has no account"
    rf"\b(?:{_ALL_RECIPIENTS})\b.{{0,20}}\b(?:{_HAS_NO}) (?:\w+ )?(?:{_ALL_RECIPIENTS}|account"
    rf"|tili[äa]|cont)\b",
    r"\u0443 пользователя нет",
    *_near(_PLACES, _NOT_THERE, 30),
    rf"\b(?:{_NOT_LISTED})",
    r"\b(?:kein(?:en?)?|aucune|ninguna|nenhuma|nessuna|geen) (?:\w+ )?(?:person(?:en|ne|a|e)?"
    r"|persoon|personen|pessoa|mitarbeiter(?:in)?|medewerker) (?:mit|unter|avec|sous|con|bajo|com"
    r"|met|op|di)\b",
    # "ann was not found at example.com"
    rf"{A_NAME} (?:wurde (?:nicht (?:in|auf|bei|unter) {A_DOMAIN} gefunden|(?:in|auf|bei|unter)"
    rf" {A_DOMAIN} nicht gefunden)|(?:est introuvable|n'a pas été trouvée?) (?:sur|dans|à|chez)"
    rf" {A_DOMAIN}|no (?:se (?:ha )?encontr\w+|fue encontrad[oa]) en {A_DOMAIN}|non è stat[oa]"
    rf" trovat[oa] (?:in|su|presso) {A_DOMAIN}|não foi encontrad[oa] em {A_DOMAIN}|(?:is|werd)"
    rf" niet gevonden (?:op|in|bij) {A_DOMAIN})",
    rf"{_CJK_DOMAIN}.{{0,6}}(?:不存在|找不到|存在しま|見つかり|존재 ?하지|찾을 ?수)",
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
