"""Rules for replies about our account, our mail server or the size of the message. They come before
those about recipients, which they resemble ("limit", "quota", "account")."""

from __future__ import annotations

from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.transport.contract import FaultScope
from postroom.transport.smtp.replies import NAMED, SESSION, UNNAMED, ReplyRule, SmtpStage

_RECIPIENT, _PROVIDER = FaultScope.RECIPIENT, FaultScope.PROVIDER
_ACCOUNT, _MESSAGE = FaultScope.ACCOUNT, FaultScope.MESSAGE

_LIMIT_REACHED = "This account has reached the mail server's sending limit"
_NEEDS_LOGIN = "The mail server requires a user name and password"
_BAD_SENDER = "The mail server does not allow this From address"

BLOCK_TEXTS = (
    r"blocked (using|by|with|- ?see)|block(ed)? ?list|black ?list|\b(dns)?[rd]?bl\b|spamhaus",
    r"barracuda|proofpoint|reputation|banned sending ip|the ip you're using to send|:blocked\)",
    r"our system has detected|not accepted for policy reasons|\[(CS|HM)[0-9]+\]",
)

ACCOUNT_RULES: tuple[ReplyRule, ...] = (
    # — This message: size —
    ReplyRule(
        _PROVIDER,
        "The message is too large for the recipient's provider",
        "RFC 3463 3.3: x.2.3 is the limit of a mailbox; Gmail 552 5.2.3",
        status=r"2\.3",
        stages=NAMED,
        kind=BounceKind.CONTENT,
    ),
    ReplyRule(
        _MESSAGE,
        "The message is too large for the mail server",
        "RFC 1870 6: 552 5.3.4 at MAIL or at the end of DATA; Postfix, Exim, Exchange, SES",
        r"(message|mail|e-?mail|data)( file)?( size)?( is)? too (big|large|long)",
        r"size exceed|(?<!box )exceed(s|ed)? (\w+ ){0,4}(message |mail )?size",
        r"maximum (message|mail) size",
        status=r"3\.4",
    ),
    # — The recipient's own limits and rules, which sound like those of our account —
    ReplyRule(
        _RECIPIENT,
        "The recipient accepts mail only from certain senders",
        "Microsoft 365: x.7.124, 129, 133 to 136, 703, and those of x.7.5xx that a tenant sets up;"
        " Facebook 550 5.1.1 RCP-P2",
        r"due to recipient preferences",
        status=r"7\.(124|129|13[3-6]|504|505|507|510|513|703)",
        stages=NAMED,
        kind=BounceKind.POLICY,
    ),
    ReplyRule(
        _RECIPIENT,
        "The recipient is receiving too much mail at the moment",
        "Gmail 450 4.2.1; Yahoo 450; Exchange Online 432 4.3.2 STOREDRV.Deliver; iCloud 421 4.7.1",
        r"receiving mail (too (quickly|fast)|at a rate)|recipient thread limit",
        r"messages to\s+(\S+ )?deferred due to excessive volume|mailbox received too much",
        stages=NAMED,
        kind=BounceKind.TEMPORARY,
    ),
    # — Our account: login —
    ReplyRule(
        _ACCOUNT,
        "The mail server requires an encrypted connection (TLS)",
        "RFC 3207 4: 530 5.7.0 Must issue a STARTTLS command first; RFC 4954 6: 538",
        r"must issue a starttls|starttls (is )?required|encryption required",
    ),
    ReplyRule(
        _ACCOUNT,
        _LIMIT_REACHED,
        "SendGrid 451 Authentication failed: Maximum credits exceeded, in reply to AUTH",
        r"maximum credits exceeded",
    ),
    ReplyRule(
        _ACCOUNT,
        "The mail server cannot check the password at the moment",
        "RFC 4954 6: 454 4.7.0 Temporary authentication failure",
        code="4(?!32|21)..",
        stages=frozenset({SmtpStage.AUTH}),
    ),
    ReplyRule(
        _ACCOUNT,
        "The mail server rejects the user name or password",
        "RFC 4954 6: 432, 534, 535; RFC 5248: 525; Office 365 535 5.7.139",
        code="432|534|535|525",
        stages=frozenset({SmtpStage.AUTH}),
    ),
    ReplyRule(
        _ACCOUNT,
        _NEEDS_LOGIN,
        "Office 365 530 5.7.57; Google Workspace 550 5.7.1 and Exim 550 for relay; SMTP2GO 550;"
        " RFC 5248: x.7.8 and 11 to 14 (not 9, which Yahoo gives for DMARC)",
        r"\bsmtp auth(entication)? (is )?required|turn on smtp authentication|need auth",
        r"authentication (is )?required|(must|please|need to) (authenticate|log ?in)",
        r"invalid credentials for relay|client (was|is)? ?not authenticated",
        r"not authenticated to send|requires? authentication|unauthenticated senders? not allowed",
        status=r"7\.(8|11|12|13|14|57|139)",
    ),
    ReplyRule(_ACCOUNT, _NEEDS_LOGIN, "RFC 4954 6, RFC 5248", code="525|530|534|535|538"),
    # — Our account: limits —
    ReplyRule(
        _ACCOUNT,
        "The mail server is limiting how fast this account can send",
        "Amazon SES 454 Throttling failure; Office 365 432 4.3.2 for SMTP AUTH, x.2.251 to 255",
        r"maximum sending rate exceeded|sender thread limit|sender throttled",
        r"concurrent connections limit exceeded",
        status=r"2\.25[1-5]",
    ),
    ReplyRule(
        _ACCOUNT,
        _LIMIT_REACHED,
        "Gmail 550 5.4.5; Office 365 5.1.90, 5.7.233, 5.7.705; cPanel; Amazon SES 454; IONOS 450;"
        " SparkPost 420; Mailgun; Brevo; policy services of Postfix",
        r"\b(daily|hourly|monthly)\b.{0,60}\b(limit|quota|maximum|allowance)",
        r"\b(limit|quota|maximum)\b.{0,60}\b(daily|hourly|(per|last|an?|this) (minute|hour|day))\b",
        r"\b(sending|send|relay|submission|outgoing|outmail)\b.{0,30}\b(limit|quota|threshold)",
        r"exceeded (the )?max \w+( and \w+)? per hour|messages per (second|minute|hour|day) limit",
        r"tenant has exceeded|submissionquotaexceeded|recipient limit exceeded|email quota exceed",
        r"too many (messages|emails|mails) from (sender|this|your)",
        status=r"1\.90|2\.122|7\.(232|233|705)",
    ),
    # — Our account: stopped —
    ReplyRule(
        _ACCOUNT,
        "The mail server has suspended sending for this account",
        "Amazon SES 554; Office 365 5.1.8, 5.7.501 to 503, 5.7.7xx; Zoho 5.1.8 and 5.4.6; Mailgun;"
        " Brevo 502 5.7.0",
        r"\bsending\b.{0,25}\b(is |has been )?(paused|suspended|disabled|restricted)"
        r"|outgoing( mail)? blocked",
        r"\byour (\w+ ){0,2}account\b.{0,40}\b(paused|suspended|disabled|b?locked|deactivated"
        r"|restricted|terminated|not (yet )?activated)",
        r"bad outbound sender|unusual sending activity|spam abuse detected",
        r"not allowed to send: (account|domain)?\W*(terminated|disabled|suspended)",
        status=r"7\.(50[123]|7(?!03)[0-9]{2})",
    ),
    # — Our account: From address and relay —
    ReplyRule(
        _ACCOUNT,
        _BAD_SENDER,
        "Postfix smtpd(8); Amazon SES 554; SendGrid 550; Zoho 553; SparkPost 550; Postmark;"
        " Mailgun; Exim 550; Office 365 5.7.60 and 554 5.2.252; RFC 3463 3.2: x.1.7 and x.1.8",
        r"sender (address )?rejected|sender (verify|verification) failed",
        r"sender (\S+ )?(is |was )?not (allowed|authori[sz]ed|verified|valid|owned|permitted)",
        r"verified sender identity|(address|domain|sender|identity) (is )?not (yet )?verified",
        r"not (allowed|authori[sz]ed|permitted) to send (\w+ )?(as|from|on behalf)",
        r"permissions? to (send as|submit)|sendasdenied|unconfigured sending domain",
        r"relaying disallowed as|sender signature|domain \S+ is not allowed to send\b",
        status=r"1\.[78]|7\.60",
    ),
    ReplyRule(
        _ACCOUNT,
        "The mail server does not relay mail for us",
        "Postfix 554 5.7.1; Exim 550 relay not permitted; Exchange 550 5.7.54 Unable to relay;"
        " Google Workspace 550 5.7.0 Mail relay denied",
        r"relay(ing)? (access |mail )?(is )?(denied|not permitted|not allowed|prohibited)",
        r"unable to relay|(not permitted|not allowed) to relay|do(es)? not relay",
        r"allowed rcpthosts|not an open relay|(do ?n[o']t|not) (handle|relay) mail for",
    ),
    ReplyRule(
        _ACCOUNT,
        "The mail server does not accept mail from this computer",
        "Postfix smtpd(8) with smtpd_delay_reject says only at RCPT that it rejects the client",
        r"(client host|helo command) rejected|invalid helo name",
    ),
    # — Our mail server, before a recipient is named —
    ReplyRule(
        _ACCOUNT,
        "The mail server blocks this computer's IP address",
        "RFC 5321 3.1: 554 instead of a greeting; GMX 554-IP address is block listed",
        *BLOCK_TEXTS,
        stages=UNNAMED,
    ),
    ReplyRule(
        _ACCOUNT,
        "The mail server accepts no more connections at the moment",
        "Postfix smtpd(8) 421 4.7.0; Rackspace 421; Exchange Online 421 4.3.2",
        r"too many (concurrent )?(\w+ )?(connections|sessions|errors)|concurrent connections",
        code="4..",
        kind=BounceKind.TEMPORARY,
    ),
    ReplyRule(
        _ACCOUNT,
        "The mail server refuses the connection",
        "RFC 5321 3.1, RFC 7504: 5xx before any mail was offered refuses us altogether",
        code="5..",
        stages=SESSION,
    ),
    ReplyRule(
        _ACCOUNT,
        _BAD_SENDER,
        "RFC 5321 3.3: 5xx to MAIL is about the sender: no recipient has been named yet",
        code="5..",
        stages=frozenset({SmtpStage.MAIL}),
    ),
    ReplyRule(
        _ACCOUNT,
        "The mail server is busy at the moment",
        "RFC 5321 4.2.2: 421, 450, 451, 452 before a recipient is named",
        code="4..",
        stages=UNNAMED,
    ),
)
