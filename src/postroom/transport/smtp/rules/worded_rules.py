"""Rules for replies whose words say more than their code, which many servers choose badly.

`FIRST` comes before the rules that go by codes. `LAST` is what bounces say in plain words, and
little else: without a reason, a refusal still counts as unknown during sending, so that many alike
are noticed.
"""

from __future__ import annotations

from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.transport.contract import THROTTLED, FaultScope
from postroom.transport.smtp.replies import NAMED, ReplyRule
from postroom.transport.smtp.rules.dead_mailboxes import (
    DEAD_MAILBOX,
    DENIED_RECIPIENT,
    NOT_ABOUT_US,
    REJECTED_RECIPIENT,
    WRONG,
)
from postroom.transport.smtp.rules.foreign_words import (
    IS_TEMPORARY,
    MAILBOX_IS_FULL,
    SENDER_IS_WRONG,
)

_GONE, _FULL = BounceKind.GONE, BounceKind.FULL
_TEMPORARY, _POLICY, _CONTENT = BounceKind.TEMPORARY, BounceKind.POLICY, BounceKind.CONTENT


_NOT_RECIPIENT = r"(?:(?!\b(?:recipient|rcpt|to)\b).)"
_IS_MISSING = (
    rf"(?:{WRONG}|\b(must exist|does not resolve|no (valid )?(mx|a|dns)\b|(not|n't) be (verified"
    r"|resolved|found)|on (our|the) \w+ list|(verification|validation|lookup) failed))"
)

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
    code: str = "[45]..",
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
        code=code,
        stages=NAMED,
        kind=kind,
    )


FIRST: tuple[ReplyRule, ...] = (
    _rule(
        _GONE,
        "Long replies that name block lists or authentication, too: MailEnable, Microsoft 365",
        r"\b(account|address|domain|mail-?box) may not exist(?! or dns check)"
        r"|no mail-enabled subscriptions",
        reason="The address does not exist",
        code="5..",
    ),
    _rule(
        _TEMPORARY,
        "GoDaddy 550 5.1.1 has sent to too many recipients this hour; NTT Docomo 552",
        r"\b(too many|excessive) (\w+ ){0,3}(recipients|users|addresses|rcpt|unknowns)\b",
        reason=THROTTLED,
        scope=FaultScope.PROVIDER,
    ),
    _rule(
        _POLICY,
        "Exim, Postfix, qmail: what was said before a recipient was named is about the sender",
        r"(after|in reply to) (initial connection|MAIL FROM|HELO|EHLO)|but sender was rejected",
        r"\b(helo|ehlo)\b",
        reason="The recipient's provider does not accept our mail",
        code="5..",
    ),
    _rule(
        _TEMPORARY,
        "A mailbox that its owner or the provider can open again: i.ua 550; X.400 and Exchange 5.5",
        r"(user|recipient|mail ?box|account)\b.{0,40}\b(frozen|temporar\w+ (disabled|suspended"
        r"|blocked|locked|inactive|closed)|(temporar\w+|currently) (not available|unavailable)"
        r"|(unavailable|not available) (to take delivery|at (this|the) (time|moment))"
        r"|(unavailable|suspended|disabled|inactive|locked)\b.{0,40}\b(re)?try (again|later))",
        r"\b(database|directory|ldap server)( service)? (is )?(currently )?(not available"
        r"|unavailable)",
        r"\b(verify|check|validate|look ?up)\b.{0,40}\btry (again )?later",
        IS_TEMPORARY,
        reason="The mailbox is temporarily disabled",
        only_status=r"(?!1\.([126]|10)$).*",
    ),
    _rule(
        _POLICY,
        "Words about the sender, which would say of a recipient that they do not exist: iCloud's"
        " relay 550 5.1.1, Postfix, Exim, qmail",
        r"\b(unauthori[sz]ed|unknown|invalid|bad|bogus|illegal|forged|untrusted|no such user)\W+"
        r"(envelope |mail )?sender",
        rf"\b(sender|return[- ]path|reply-to|bounce address|(from|envelope|mail from):?"
        rf" (address|header|domain|from)|address you (are |were )?(sending|using))\b(?! address:)"
        rf"{_NOT_RECIPIENT}{{0,40}}{_IS_MISSING}",
        rf"\b(your|in (the )?from|client|sending|connecting|origin) (sending |mail |own "
        rf"|e?-?mail )?"
        rf"(domain|host ?(name)?|header|server|address|account|mail ?box|user ?name"
        rf"|ip( address)?)\b"
        rf"{_NOT_RECIPIENT}{{0,30}}{_IS_MISSING}",
        r"\b(invalid|unknown|bad|bogus|forged) (e?-?mail )?(domain|address|user) (in|of) (the "
        r"|your )?"
        r"(from|sender|envelope|header|mail from)",
        r"\b(from|by) (an )?(invalid|unknown|unregistered) (address|user|domain|host)",
        r"\b(user|address|domain|account) (that )?(you|used)\b.{0,20}\b(send|authenticat)"
        r"|(user ?name|login) (or|and) password|authentication (failed|error)|not authenticated",
        r"\b(verify|find|resolve|recogni[sz]e|validate) (your|(the )?sender)\b",
        r"\b(verification|validation|lookup) failed (for|of) (the )?(sender|client|your|envelope)",
        r"\bno (valid )?(mx|a|dns)\b.{0,30}\b(sender|your|envelope|from)\b",
        r"\bsender address\b.{0,20}\bis (not an?|no) (valid|legal|proper)\b",
        r"(n't|not) accept (any )?(e?mails?|messages?) from (this|your) (sender|address|domain)",
        r"\bsender'?s? (e?mail )?account\b|\baccount of (the )?sender\b"
        r"|\byour (e?mail )?account (does(n't| not) exist|is (invalid|unknown))",
        r"\byour ip\b.{0,30}\b(invalid|unknown)|\bip address\b.{0,30}"
        r"\b(invalid|unknown|not (valid|known|found))",
        *SENDER_IS_WRONG,
        reason="The recipient's provider does not accept our mail",
    ),
    _rule(
        _POLICY,
        "Providers that call a mailbox unavailable for senders whom they do not trust: GMX, QQ",
        r"mailbox unavailable\b.{0,20}\b(or access denied|reject due to|due to polic)",
        r"\buser\b.{0,20}\bbut sender\b",
        reason="The recipient's provider does not accept our mail",
    ),
    _rule(
        _POLICY,
        "Mailing lists for members only, and recipients who accept only some senders",
        r"\b(you|your (e-?mail )?address|sender|poster)\b.{0,20}(\bnot|n't) (an? )?"
        r"(subscribe|member)|\byou (are|were) not listed\b|\bsender (is |was )?not listed\b",
        r"only (subscribers|members)|(recipient|user|mail ?box|address|account) (refuses"
        r"|(does|will)(n't| not) accept) .{0,30}\bfrom\b|(list|group) (is )?(closed|moderated)\b",
        r"\b(recipient|user|owner) (has )?block(s|ed) (you|the sender|mail from)"
        r"|blocked by (the )?(recipient|user)\b|\b(mail ?box|user|account) (is )?blocked for\b",
        r"\b(recipient|user)( address)? (has )?reject(s|ed)? (your|the|this) (e-?)?(mail|message)",
        r"\b(group|list)\b.{0,80}\bmay not have permission",
        reason="The recipient accepts mail only from certain senders",
        scope=FaultScope.RECIPIENT,
    ),
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
        r"(disk|mail(box)?|user'?s?|recipient|account|storage|inbox)\b.{0,40}"
        r"\b(over ?-?quota|quota)",
        r"\b(quota|storage|space)\b.{0,30}\b(exceed|reached|full|limit|used up|exhausted)",
        r"(exceed|reached|over|out of)\w*\b.{0,40}\b(quota|disk space|storage (limit|space|quota))",
        r"(mail ?box|mail ?folder|inbox|maildrop|account) (\S+ )?(is |was )?(too )?full\b",
        r"full (mail ?box|inbox)|too much mail stored|mailbox size limit|enough (\w+ )?space",
        r"quota violation|(mail ?box|disk) space not enough|no (more )?(disk )?space",
        r"mail ?box (would )?exceeds? .{0,20}(size|storage)|for exceeding .{0,20}\blimits?\b",
        r"too many messages on the server",
        r"(mail ?box|account|user|recipient)\b.{0,20}\b(reached (its|their|the) limit"
        r"|out of space|disk exceeded|(has )?insufficient space)|recipient disk",
        *MAILBOX_IS_FULL,
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
        r"\bblocked by \d|\bby (our |local |the )?polic(y|ies)\b",
        r"blocked (by|using|for) (\w+ ){0,3}(spam|polic|abuse|reputation)|dynamic ip|open proxy",
        r"(from )?(ip( address)?|mail server|network)\b.{0,30}\b(blocked|mismatch|not accept"
        r"|no longer accept)|list of (allowed|approved|permitted|trusted|known) senders|\b(from"
        r"|for) (sending|outbound)\b|not (permitted|allowed|authori[sz]ed) to send\b",
        r"accepting mail from your|access from|resolve your|relay host|server of your isp",
        r"(invalid|missing|no|bad) r(everse[- ]?)?dns\b|unroute?able sender",
        r"mismatch(es)? (the )?client|messages? from \S+ (were|was)(n.t| not) sent",
        r"administrative prohibition|(not|n't) accept (delivery of )?(this|your) (e?-?mail"
        r"|message)",
        r"unwanted messages|\b(invalid|bad|wrong) ip\b|possible forgery(?! or)|\bspoof",
        r"\bpolicy (error|rejection|violation)\b|relaying disallowed",
        r"sender (address |domain )?(rejected|denied|refused|not allowed)(?!.{0,20}recipient)",
        r"mail from \S+ (is )?(rejected|refused|denied|not allowed)|not accepting mail from",
        r"our system has detected(?!.{0,20}unusual rate)|\bbatv\b|backscatter"
        r"|no valid recipients from",
        r"domain of (the )?sender.{0,80}(does not exist|not found|invalid)",
        r"\b(over|via|by|through|tramite|por|par|über) ipv[46]\b"
        r"|(^5..|5\.1\.0) (- )?(5..-)?'5\.7\.",
        r"^5..[ -](5\.\d\.\d )?(error: )?(e-?mail|message) (is |was )?(refused|denied)\W*$",
        r"\bdns check failed",
        r"server requires confirmation|confirm this mail server|host network not allowed",
        r"sender verif(y|ication) failed|^5..[- ]verification failed for",
        reason="The recipient's provider blocks our mail server",
    ),
    _rule(
        _CONTENT,
        "Virus and spam filters that say which, with any code",
        r"(message|mail|content|attachment)\b.{0,40}\b(contain(s|ed)?|infected|identified as|"
        r"classified as|considered|looks like|detected as|likely)\b.{0,30}\b(spam|virus|malware|"
        r"unsolicited|worm|phish)",
        r"(spam|virus) (detected|found|message|content|score)|\bspam\W*$|prohibited (attachment"
        r"|content)",
        r"\b(message|mail|data) size limit|(rejected|blocked) by (\w+ ){0,2}filter\b",
        r"\b(url|uri|links?|message-?id|headers?|subject|attachments?|mime|charset)\b.{0,40}"
        r"\b(invalid|malformed|missing|not (valid|allowed|permitted|exist)|illegal|no longer"
        r"|non-?exist\w*|mandatory|required)",
        r"\b(invalid|malformed|missing|illegal|duplicate) (\w+[- ]){0,2}"
        r"(headers?|message-?id|url|subject|mime|charset|content)\b|\buser[- ]agent\b",
        r"\b(invalid|malformed|missing|illegal|empty|no) \W?(to|cc|bcc|from|date|reply-to)\W? "
        r"(header|field)\b|\b(empty|blank|without (an? )?) ?subject\b",
        reason="The mail server rejects the content of the message",
        only_status=r"(?!1\.[126]$).*",
    ),
    _rule(
        _GONE,
        "Domains that accept no email at all (RFC 7505), or are not in the DNS: sendmail, Hotmail",
        r"\b(host|domain)\b( \S+)?.{0,10}\bdo(es)?(n't| not) accept (any )?(mail|email)\b|null mx",
        r"\bdomain (name )?(is|was)(n't| not) (reachable|resolvable)",
        reason="The address does not exist",
    ),
    _rule(
        _GONE,
        "x.7.x, which filters give for everything, with words that leave no doubt: LiteMail,"
        " Tucows",
        r"\b(no such|unknown|invalid|non-?existent) (local )?(user|recipient|mail-?box|account)\b",
        r"\b(user|recipient|mail-?box|account) (is |was )?(unknown|not (found|known)"
        r"|does(n't| not) exist)\b",
        r"\bno (valid )?(user|recipient|mail ?-?box|account) (found|here|by that name)\b",
        r"\b(mail-?box|recipient|user'?s? (account|mail-?box))( is| was| has been)?"
        r" (invalid|inactive|disabled|deactivated|closed|deleted|archived|retired)\b",
        r"no longer (works?|employed|with (us|the company)|exists?|active|in use|at this)\b",
        r"\brecipient is in my bad\s?(recipient|rcpt)|\bnot in my valid\s?(recipient|rcpt)",
        r"\b(unknown|invalid) (address|email)\b|\b(address|email) (is )?(unknown|invalid)\b",
        r"\b(user|recipient|mail-?box|account|address) no longer\b",
        reason="The address does not exist",
        only_status=r"7\.[0-9]+",
    ),
    _rule(
        _GONE,
        "x.7.1 with words about the mailbox and none about us: Proofpoint, Rambler, Trend Micro,"
        " ZeroSpam",
        rf"{NOT_ABOUT_US}(?:{'|'.join(DEAD_MAILBOX)})",
        rf"{NOT_ABOUT_US}recipient address rejected: ?(inactive|invalid|unknown|not in\b|no such)",
        rf"{NOT_ABOUT_US}\b(domain|host) (not found|unknown|does(n't| not) exist)",
        reason="The address does not exist",
        only_status=r"7\.(0|1|17)",
        code="5..",
    ),
)

LAST: tuple[ReplyRule, ...] = (
    _rule(
        _TEMPORARY,
        "Time and connections: Postfix, Exim, PMDF, Netscape, InterScan, Exchange 4.4.x",
        r"timed? ?out|not (been )?reachable|unreachable|connection (was )?(refused|reset|closed|"
        r"lost|dropped|to mail exchanger failed)|no route to host|network error|lost connection",
        r"(retry|queue|delivery) (time|period|timeout)\w* (was )?(exceeded|expired)"
        r"|(?<!account )(?<!mailbox )(?<!user )(?<!address )(?<!alias )has expired",
        r"(maximum|too many|\b[0-9]+) (delivery |unsuccessful )?(attempts|retries|hops)|try again",
        r"(mail ?box|recipient('s)?) (mail )?server (is |was )?(not|unavailable|down)",
        r"not yet (been )?(delivered|received)|delay(ed)?\b|postponed|still being retried|loop",
        r"hosts? ha(s|ve) been failing|service (is )?(currently )?unavailable",
        r"temporar(y|ily)|could not connect|server (is )?(down|busy|unavailable)|will be retried",
        r"after (multiple|several|repeated) (retries|attempts)|accept (our )?requests to connect",
        r"mail system (full|storage)|insufficient (system |disk )?(storage|space)|local error",
        only_status=r"(?!1\.|2\.1).*",
    ),
    _rule(
        _GONE,
        "Domains that do not exist, or have no mail server: Postfix 5.4.4, sendmail 5.1.2, Exim,"
        " qmail, Nemesis",
        r"(host|domain|destination)( or domain)?( name)? (is )?(unknown|not found"
        r"|does ?n[o']t exist)(?!, try)",
        r"(unknown|no such|non-?existent|illegal|invalid|bad) (mail )?(host|domain|destination)\b",
        r"domain (\S+ )?(does ?n[o']t exist|is (not valid|unknown)|has no (valid )?mail)",
        r"unroute?able(?! sender)|domain must exist|all relevant mx",
        r"name service error.{0,80}(nxdomain|not found(?!, try))",
        r"domain.{0,60}(name error|expired|couldn't be found|could not be found)",
        r"(could ?n[o']t|cannot|can't|unable to|n[o']t able to|failed to) find (any |an? |the )?"
        r"(mail |recipient )?(exchanger|host|domain|server)\b",
        r"\bno (valid |usable |suitable )?mx\b(?!.{0,40}\b(reach|time))"
        r"|no mail (hosts|servers|exchangers?) (for|found)",
        only_status=r"(?!7\.).*",
    ),
    _rule(
        _GONE,
        "Exchange, Domino, GroupWise, qmail, MDaemon, PMDF, MailEnable, Lotus, and in other"
        " languages",
        *DEAD_MAILBOX,
        REJECTED_RECIPIENT,
        only_status=r"(?!7\.).*",
    ),
    _rule(
        _GONE,
        "Replies that deny something about the recipient and say nothing about us: KumoMTA",
        DENIED_RECIPIENT,
        only_status=r"([0125]\.[01])?",
        code="5..",
    ),
    _rule(_TEMPORARY, "RFC 3463 3.4, 3.5: the system or the network", status=r"[34]\.[0-9]+"),
    _rule(
        _POLICY,
        "RFC 3463 3.8: security or policy. Without a known text, it says nothing of other emails",
        status=r"7\.[0-9]+",
        scope=FaultScope.RECIPIENT,
    ),
)
