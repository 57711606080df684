"""Rules for replies whose words say more than their code, which many servers choose badly.

`FIRST` comes before the rules that go by codes. `LAST` is what bounces say in plain words, and
little else: without a reason, a refusal still counts as unknown during sending, so that many alike
are noticed.
"""

from __future__ import annotations

from postroom.domain.messages.bounces import BounceKind
from postroom.transport.contract import FaultScope
from postroom.transport.smtp.replies import NAMED, ReplyRule

_GONE, _FULL = BounceKind.GONE, BounceKind.FULL
_TEMPORARY, _POLICY, _CONTENT = BounceKind.TEMPORARY, BounceKind.POLICY, BounceKind.CONTENT


_SCOPES = {
    BounceKind.POLICY: FaultScope.PROVIDER,
    BounceKind.CONTENT: FaultScope.MESSAGE,
}


def _rule(
    kind: BounceKind,
    seen: str,
    *texts: str,
    reason: str = "",
    status: str = "",
    only_status: str = ".*",
    scope: FaultScope | None = None,
) -> ReplyRule:
    scope = scope or _SCOPES.get(kind, FaultScope.RECIPIENT)
    return ReplyRule(
        scope,
        reason,
        seen,
        *texts,
        status=status,
        only_status=only_status,
        stages=NAMED,
        kind=kind,
    )


FIRST: tuple[ReplyRule, ...] = (
    _rule(
        _POLICY,
        "Quotas of our own account: Amazon SES, GoDaddy, Mailhostbox",
        r"\b(sending|relay|outgoing|outmail|daily|hourly)\b.{0,20}\bquota",
        reason="This account has reached the mail server's sending limit",
        scope=FaultScope.ACCOUNT,
    ),
    _rule(
        _FULL,
        "Says both 'unavailable' and 'quota': Exim, GoDaddy, Outblaze, Yahoo, EarthLink, sendmail",
        r"(disk|mail(box)?|user'?s?|account|storage|inbox)\b.{0,40}\b(over ?-?quota|quota)",
        r"\b(quota|storage|space)\b.{0,30}\b(exceed|reached|full|limit|used up|exhausted)",
        r"(exceed|reached|over|out of)\w*\b.{0,40}\b(quota|disk space|storage (limit|space|quota))",
        r"(mail ?box|mail ?folder|inbox|maildrop|account) (\S+ )?(is |was )?(too )?full\b",
        r"full (mail ?box|inbox)|too much mail stored|mailbox size limit|enough (\w+ )?space",
        r"quota violation|(mail ?box|disk) space not enough|no (more )?(disk )?space",
        r"bo[iî]te .{0,30}pleine|postfach .{0,20}voll|buz[oó]n .{0,20}lleno|casella piena",
        reason="The mailbox is full",
        only_status=r"(?!7\.|3\.[14]).*",  # with 5.1.1, too: qmail-toaster
    ),
    _rule(
        _POLICY,
        "Some filters call a domain that they do not trust an unknown user: 550 5.1.1",
        r"\b(spf|dkim|dmarc)\b.{0,30}\b(fail|reject|check|policy|required)|unauthenticated",
        reason="The recipient's provider does not trust mail from this domain (SPF, DKIM or DMARC)",
    ),
    _rule(
        _POLICY,
        "Some filters call a sender on a block list an unknown user: 550 5.1.1",
        r"spamhaus|block(ed)? ?list|black ?list|\b(dns)?[rd]bl\b|spamcop|barracuda\S* reputation",
        r"(your|sender'?s?|client|sending) (ip|host|server|domain|address)\b.{0,40}\b(blocked"
        r"|rejected|banned|denied|reputation)",
        r"blocked (by|using|for) (\w+ ){0,3}(spam|polic|abuse|reputation)|dynamic ip|open proxy",
        r"(from )?(ip( address)?|mail server|network)\b.{0,30}\b(blocked|mismatch|not accept)",
        r"accepting mail from your|access from|resolve your|relay host|server of your isp",
        r"sender (address |domain )?(rejected|denied|refused|not allowed)(?!.{0,20}recipient)",
        r"mail from \S+ (is )?(rejected|refused|denied|not allowed)|not accepting mail from",
        r"our system has detected(?!.{0,20}unusual rate)",
        reason="The recipient's provider blocks our mail server",
    ),
    _rule(
        _CONTENT,
        "Virus and spam filters that say which, with any code",
        r"(message|mail|content|attachment)\b.{0,40}\b(contain(s|ed)?|infected|identified as|"
        r"classified as|considered|looks like|detected as|likely)\b.{0,30}\b(spam|virus|malware|"
        r"unsolicited|worm|phish)",
        r"(spam|virus) (detected|found|message|content|score)|prohibited (attachment|content)",
        r"\b(message|mail|data) size limit",
        reason="The mail server rejects the content of the message",
        only_status=r"(?!1\.[126]$).*",
    ),
    _rule(
        _GONE,
        "x.7.1, which filters give for everything, with words that leave no doubt: LiteMail",
        r"\b(no such|unknown|invalid|non-?existent) (local )?(user|recipient|mailbox|account)\b",
        r"\b(user|recipient|mailbox|account) (is )?(unknown|not found|does not exist)\b",
        reason="The address does not exist",
        only_status=r"7\.1",
    ),
)

LAST: tuple[ReplyRule, ...] = (
    _rule(
        _TEMPORARY,
        "Time and connections: Postfix, Exim, PMDF, Netscape, InterScan, Exchange 4.4.x",
        r"timed? ?out|not (been )?reachable|unreachable|connection (was )?(refused|reset|closed|"
        r"lost|dropped|to mail exchanger failed)|no route to host|network error|lost connection",
        r"(retry|queue|delivery) (time|period|timeout)\w* (was )?(exceeded|expired)|has expired",
        r"(maximum|too many|\b[0-9]+) (delivery |unsuccessful )?(attempts|retries|hops)|try again",
        r"not yet (been )?(delivered|received)|delay(ed)?\b|postponed|still being retried|loop",
        r"temporar(y|ily)|could not connect|server (is )?(down|busy|unavailable)|will be retried",
        r"mail system (full|storage)|insufficient (system |disk )?(storage|space)|local error",
        only_status=r"(?!1\.|2\.1).*",
    ),
    _rule(
        _GONE,
        "Domains that do not exist: Postfix 5.4.4, sendmail 5.1.2, Exim",
        r"(host|domain)( or domain)?( name)? (is )?(unknown|not found|does ?n[o']t exist)(?!, try)",
        r"(unknown|no such|non-?existent|illegal|invalid|bad) (mail )?(host|domain|destination)",
        r"domain (\S+ )?(does ?n[o']t exist|is (not valid|unknown)|has no (valid )?mail)",
        r"unrouteable|name service error.{0,80}(nxdomain|not found(?!, try))|all relevant mx",
        r"domain.{0,60}(name error|expired|couldn't be found|could not be found)",
        only_status=r"(?!7\.).*",
    ),
    _rule(
        _GONE,
        "Exchange, Domino, GroupWise, qmail, MDaemon, PMDF, MailEnable, Lotus, and in other"
        " languages",
        r"(user|recipient|mailbox|addressee|address|account|alias|name|member|customer|email)\b"
        r".{0,60}\b(un(known|recogni[sz]ed|deliverable)|not (be )?(found|known|recogni[sz]ed|exist"
        r"|valid|match|local|listed|active|available|permitted to receive)|n[o']t (\w+ )?exist"
        r"|disabled|discontinued|deactivated|inactive|suspended|closed|cancell?ed|deleted|removed"
        r"|terminated|invalid|unavailable|obsolete|expired|retired|no longer|rejected)",
        r"\b(no|not a|isn't a|unknown|invalid|wrong|bad|non-?existent|inactive|disabled|expired)"
        r" (such |known |valid |current |local |registered |active )*(user|recipient|mailbox|person"
        r"|address(ee)?|alias|account|subscriber|customer|people|mail ?drop|one"
        r"|matche?s?|lookup|user ?id)",
        r"no longer (accept|exist|in use|valid|available|works?|employ|here|at |on |active|member)",
        r"(does|did|do|could|can)(n't| ?not) (exactly )?(match|exist|have an? (\w+ ){0,3}(account|"
        r"mailbox|delivery point)|be (found|resolved))|has (left|moved)",
        r"rejected: access denied|is dead",
        r"user not |nobody (here )?by|not our customer|doesn't like|missing home directory",
        r"(bad|valid)_?rcpt(to)?\b|badrecipient|recipient_?not_?found|rejected recipient",
        r"accept user|not present|invalid (\w+ ){0,3}user ?id",
        r"recipient (is )?(not ok|not accepted|refuses)|address(es)? (were|was) unknown",
        r"\bunknown (\w+[- ]){0,2}(user|address|part)|not an? active|unavaiable|name directory",
        r"non[- ]?exist[ae]nt|no mail ?box|nessun utente|isn't in my list|^5.. (: )?not found",
        r"n'existe pas|inconnue?s?\b|non recens|no existe|desconocid|inexistente|non esiste",
        r"sconosciut|existiert nicht|unbekannt|nicht (gefunden|bekannt|vorhanden)|inesistente",
        r"не существует|не найден|用户不存在|不存在|존재하지|존재 하지|ない|見つかりません",
        only_status=r"(?!7\.).*",
    ),
    _rule(_TEMPORARY, "RFC 3463 3.4, 3.5: the system or the network", status=r"[34]\.[0-9]+"),
    _rule(
        _POLICY,
        "RFC 3463 3.8: security or policy. Without a known text, it says nothing of other emails",
        status=r"7\.[0-9]+",
        scope=FaultScope.RECIPIENT,
    ),
)
