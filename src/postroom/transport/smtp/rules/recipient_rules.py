"""Rules for replies that are about a recipient, the recipient's provider or the content of the
message."""

from __future__ import annotations

from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.transport.contract import THROTTLED, FaultScope
from postroom.transport.smtp.replies import NAMED, ReplyRule, SmtpStage
from postroom.transport.smtp.rules.account_rules import BLOCK_TEXTS

_RECIPIENT, _PROVIDER = FaultScope.RECIPIENT, FaultScope.PROVIDER
_ACCOUNT, _MESSAGE = FaultScope.ACCOUNT, FaultScope.MESSAGE

RECIPIENT_RULES: tuple[ReplyRule, ...] = (
    # — The recipient, by enhanced code —
    ReplyRule(
        _RECIPIENT,
        "The address does not exist",
        "RFC 3463 3.2: x.1.1, 2, 3, 6; RFC 7505: x.1.10",
        status=r"1\.(1|2|3|6|10)",
        stages=NAMED,
        kind=BounceKind.GONE,
    ),
    ReplyRule(
        _RECIPIENT,
        "The mailbox is disabled, or busy at the moment",
        "RFC 3463 3.3: x.2.1",
        status=r"2\.1",
        stages=NAMED,
        kind=BounceKind.GONE,
    ),
    ReplyRule(
        _RECIPIENT,
        "The mailbox is full",
        "RFC 3463 3.3: x.2.2",
        status=r"2\.2",
        stages=NAMED,
        kind=BounceKind.FULL,
    ),
    ReplyRule(
        _RECIPIENT,
        "The recipient's server does not accept mail for this address",
        "Postfix smtpd(8): the recipient's address was what it looked at; Exchange 550 5.4.1",
        r"recipient address rejected: (access denied|user|undeliverable|unverified|domain|unknown"
        r"|mailbox|address|account|over quota|invalid|no such)",
        stages=NAMED,
    ),
    ReplyRule(
        _RECIPIENT,
        "The recipient's server asked us to try again later (greylisting)",
        "RFC 6647, Postgrey, rspamd 451 4.7.1 Try again later; Mimecast 451 Internal resource",
        r"gr[ea]y-?\s?list|\b4\.7\.1 try again later\W*$",
        r"internal resources? (is |are )?temporarily",
        code="4..",
        stages=NAMED,
        kind=BounceKind.TEMPORARY,
    ),
    # — The recipient's provider —
    ReplyRule(
        _PROVIDER,
        THROTTLED,
        "Yahoo [TSS04]; Gmail 421 4.7.28; Office 365 451 4.7.500 and 4.7.650; GMX 421; rspamd;"
        " Rackspace 451; Bluewin 554 5.2.0",
        r"\[TSS[0-9]+\]|throttl|rate.?limit|unusual rate|unexpected volume|excessive volume",
        r"too (many|much) (messages|mails?|emails)\b|slow(ing)? down|sending too (fast|many)",
        r"due to (user|customer) complaints|resources temporarily|server busy",
        r"temporarily (deferred|blocked|rejected|rate)|excessive unknown recipients",
        status=r"7\.(28|500|650)",
        stages=NAMED,
        kind=BounceKind.TEMPORARY,
    ),
    ReplyRule(
        _PROVIDER,
        THROTTLED,
        "Office 365 432 4.3.2",
        code="432",
        stages=NAMED,
        kind=BounceKind.TEMPORARY,
    ),
    ReplyRule(
        _PROVIDER,
        "The recipient's provider does not trust mail from this domain (SPF, DKIM or DMARC)",
        "Gmail 550 5.7.26; GMX 550; iCloud 550 5.7.1; Mimecast 550; Rackspace 450 4.7.1",
        r"\b(spf|dkim|dmarc)\b|reverse dns|\bptr\b|header based anti-spoofing",
        r"(mail|email|message)\S* (is |are )?unauthenticated|unauthenticated (e?mail|message)",
        only_status=r"([07]\.[0-9]+)?",
        stages=NAMED,
    ),
    ReplyRule(
        _PROVIDER,
        "The recipient's provider does not trust mail from this domain (SPF, DKIM or DMARC)",
        "RFC 7372, 7505, 8617, 8689 and Gmail's own: x.7.20 to 40; Office 365 x.7.509 and 515",
        status=r"7\.(2[0-9]|3[0-9]|40|509|515)",
        stages=NAMED,
    ),
    ReplyRule(
        _PROVIDER,
        "The recipient's provider blocks our mail server",
        "Block lists (Spamhaus, Barracuda, Proofpoint) at Outlook, iCloud, GMX and many others",
        *BLOCK_TEXTS,
        only_status=r"([07]\.[0-9]+|2\.0)?",
        stages=NAMED,
    ),
    ReplyRule(
        _PROVIDER,
        "The recipient's provider blocks our mail server",
        "Microsoft 365: x.7.5xx and x.7.6xx ban senders and IP addresses",
        status=r"7\.[56][0-9]{2}",
        stages=NAMED,
    ),
    # — The recipient, by text —
    ReplyRule(
        _RECIPIENT,
        "The address does not exist",
        "Exim, qmail, Yahoo 554 delivery error, GMX 550 mailbox unavailable, Mimecast and others",
        r"(users?|recipients?|mailbox|address|account|alias)\b.{0,60}\b(unknown|not found|not exist"
        r"|doesn't exist|unavailable|invalid|not local|not listed|disabled|inactive|suspended)",
        r"\b(no such|unknown|invalid|unrouteable|illegal|bad) (local )?(user|recipient|mailbox|"
        r"address|alias|person|destination|domain|account)",
        r"doesn't have an? \S*\s?account|no mailbox|not a (known|valid) (user|recipient|mailbox)",
        r"null mx|no longer (on server|valid|available|with)",
        code="5..",
        only_status=r"(?!7\.).*",
        stages=NAMED,
        kind=BounceKind.GONE,
    ),
    ReplyRule(
        _RECIPIENT,
        "The mailbox is full",
        "Dovecot LMTP, Exim, Zimbra: Quota exceeded; RFC 5321 4.2.2: 552 storage allocation",
        r"(mailbox|quota|inbox|storage)\b.{0,40}\b(full|exceed|allocation)|over ?quota|is full",
        only_status=r"(?!7\.|3\.1).*",
        stages=NAMED,
        kind=BounceKind.FULL,
    ),
    ReplyRule(
        _RECIPIENT,
        "The recipient's server does not accept mail for this address yet",
        "Postfix smtpd(8); RFC 3463 3.8: 4.7.1 to RCPT is mostly greylisting",
        r"recipient address rejected|^4.. 4\.7\.1 (?!.*(polic|spam))",
        code="4..",
        stages=frozenset({SmtpStage.RCPT}),
        kind=BounceKind.TEMPORARY,
    ),
    # — This message: content —
    ReplyRule(
        _MESSAGE,
        "The mail server rejects the content of the message",
        "Postfix and Sendmail 550 5.7.1 Command rejected, which a milter asks for; rspamd 554 5.7.1"
        " Spam message rejected; Zoho 552 5.7.1 virus; Gmail 552 5.7.0; RFC 3463 3.7: x.6.x",
        r"\b(spam|virus|malware|phish|unsolicited|content|attachment|suspicious)",
        r"\b(message|mail|e-?mail|command) (\w+ ){0,3}(rejected|refused|blocked|not accepted)",
        r"\b(rejected|refused|blocked) (by|for|due to) (\w+ )?(policy|content|filter|milter)",
        r"polic(y|ies) (violation|reasons?|restrictions?)|violat\w+ (\S+ )*polic",
        status=r"6\.[0-9]+",
        code="5..",
        only_status=r"([067]\.[0-9]+)?",
        stages=NAMED - {SmtpStage.RCPT},
    ),
    ReplyRule(
        _MESSAGE,
        "A filter on the mail server rejected the message",
        "Postfix and Sendmail 550 5.7.1, for a milter that rejects a recipient without a text",
        r"command rejected",
        code="5..",
        stages=frozenset({SmtpStage.RCPT}),
    ),
    # — The rest of what is not about the recipient —
    ReplyRule(
        _PROVIDER,
        "The recipient's provider does not accept our mail",
        "The same texts in reply to RCPT, when the content has not been seen",
        r"\bspam|unsolicited|polic(y|ies) (violation|reasons?|restrictions?)|banned",
        only_status=r"([07]\.[0-9]+|1\.0)?",
        stages=NAMED,
    ),
    ReplyRule(
        _PROVIDER,
        "The recipient's provider does not accept our mail at the moment",
        "RFC 3463 3.8: 4.7.x is security or policy; Gmail and Yahoo limit senders by 421 4.7.0",
        status=r"7\.[0-9]+",
        code="4..",
        stages=NAMED,
    ),
    ReplyRule(
        _ACCOUNT,
        "The mail server has a temporary problem",
        "Postfix and Exchange 452 4.3.1; Postfix 451 4.3.0; RFC 5321 3.8: 421",
        r"insufficient system (storage|resources)|queue file write error|no space left",
        r"shutting down|not accepting (network )?messages|closing (transmission )?channel",
        r"service (is )?(currently |temporarily )?(not available|unavailable)",
        code="4..",
        stages=NAMED,
        kind=BounceKind.TEMPORARY,
    ),
)
