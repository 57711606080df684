"""Words for a mailbox that is dead: mailbox, user or address, and what is wrong with it. They count
unless a rule that comes first says that the reply is about the sender or its message."""

from __future__ import annotations

from typing import Final

from postroom.transport.smtp.rules.foreign_words import MAILBOX_IS_GONE

DEAD_MAILBOX: Final = (
    r"(users?|recipients?|mail-?box(es)?|addressee|address(es)?|accounts?|alias|name|member"
    r"|customer|email|person|inbox)\b"
    r".{0,60}\b(un(known|recogni[sz]ed|deliverable)|not (be )?(found|known|recogni[sz]ed|exist"
    r"|valid|match|local|listed|active|available|permitted to receive)|n[o']t (\w+ )?exist"
    r"|disabled|discontinued|deactivated|inactive|suspended|closed|cancell?ed|deleted|removed"
    r"|terminated|invalid|unavailable|obsolete|expired|retired|no longer"
    r"|purged|decommissioned|abandoned|withdrawn|defunct|dormant|deceased|passed away|on hold"
    r"|lookup failed(?! for)|non-?exist\w*|unacceptable|moved|never logged in|unaccessible"
    r"|not (deliverable|existing|accepted here|in (active )?use|(been )?(yet )?(activated|enabled"
    r"|provisioned|configured|registered|assigned|served|set up))|unassigned|unverifiable"
    r"|(can ?not|could not|can't|couldn't) be (verified|validated)"
    r"|(verification|validation)( check)? failed"
    r"|does(n't| not) (receive|accept|have) (an?y? )?(e-?)?mails?(box)?"
    r"(?! (from|in|with|that|larger)\b))",
    r"\bfailed recipient (verification|validation)",
    r"\b(unverifiable|unassigned) (user|recipient|mail ?box|address)",
    r"\b(user|mail ?box|account) (status )?(is |was |has been )?(b?locked)\b(?!,? ?(for|by|from"
    r"|using|as|too|because|due to (?!inactiv))\b|\.? too many)",
    r"\b(user|mail ?box|account)\b.{0,30}\bblocked by (the |an? )?administrator",
    r"\bno(t|n-?) ?(a )?(local|existing) (user|recipient|mail ?box|account|address)"
    r"|\bnon-?exist (user|mailbox|account)",
    r"^5..[ -](\d\.\d\.\d+ )?(rejected: |address )?(unknown|undeliverable|not (existing|local|found"
    r"|known))( address| recipient)?\W*$",
    r"(do|does)(n't| not) know\b(\W*$| (this |that |any |the |such )?(user|recipient|address"
    r"|person|mailbox))|unacceptable (mail |recipient )?address|\bnot deliverable\b",
    r"\bno such (name|entry|local|e-?mail)\b|\bdeliver to\b.{0,20}\bunknown\b",
    r"\bdomain\b.{0,20}\b(parked|suspended|disabled|discontinued|(not|no longer) (\w+ )?hosted)"
    r"(?! from)|(do|does)(n't| not) host (this|that|the) domain",
    r"no (smtp|e?mail) service|no longer provide e?mail|service\b.{0,30}\bdiscontinued",
    r"employee (has )?left|\bis now (disabled|inactive|closed)\b|\bstatus: (closed|inactive)",
    r"\b(no|not a|isn't a|unknown|invalid|wrong|bad|non-?existent|inactive|disabled|expired"
    r"|deactivated|archived|unavailable|suspended|closed|deleted|unrecogni[sz]ed)"
    r" (such |known |valid |current |local |registered |active |e?-?mail )*(user|recipient"
    r"|mailbox|person|address(ee)?|alias|account|subscriber|customer|people|mail ?drop|one"
    r"|matche?s?|lookup|user ?id)",
    r"no longer (accept|exist|in use|valid|available|works?|employ|here|at |on |active|member"
    r"|an? |our |part of )|left (the|our) (company|organi[sz]ation)",
    r"(could ?n[o']t|cannot|can't|unable to|failed to) (find|locate) (the |this |that |any )?"
    r"(recipient|user|mail ?box|account|address)|(?<!to )verify (the )?recipient\b(?! verif)",
    r"\b(recipient|user|mail ?box)\b.{0,20}\bnot (in|on|part of) (the |our |this |any )?(\w+ )?"
    r"(directory|address ?(list|book)|database|domain|system|server)",
    r"(does|did|do|could|can)(n't| ?not) (exactly )?(match|exist|have an? (\w+ ){0,3}(account|"
    r"mailbox|delivery point)|be (found|resolved))|has (left|moved)",
    r"rejected: access denied|is dead",
    r"\bnot (an? )?(user|recipient|account|mail ?box|address) (of|on|in|at|for)\b",
    r"user not |not a registered \w+ user|nobody (here )?by|doesn't like"
    r"|not (one of )?our (user|customer)|missing home directory",
    r"(bad|valid)_?rcpt(to)?\b|badrecipient|recip(ient)?[_ ]?not_?found|rejected recipient",
    r"accept user|not present|invalid (\w+ ){0,3}user ?id",
    r"invalid rcpt ?(to)?\b|no ?such ?user\b",
    r"\b(recipient|user|address)\b.{0,30}\bnot in (my|our|the) (local )?list\b",
    r"unresolvable (address|recipient|user)|^5..[: -]+(\d\.\d\.\d )?not used$",
    r"recipient (is )?(not ok|not accepted|refuses)|address(es)? (were|was) unknown",
    r"\bunknown (\w+[- ]){0,2}(user|address|part)|not an? active|unavaiable|name directory",
    r"non[- ]?exist[ae]nt|no mail ?box|isn't in my list|^5..[: ]+not found",
    r"n'existe (pas|plus)|no existe|non esiste|bestaat niet|existiert nicht|n[ãa]o existe"
    r"|ei ole olemassa|не (существует|найден)|不存在|見つかりません|リストにありません",
    *MAILBOX_IS_GONE,
)
REJECTED_RECIPIENT: Final = (
    r"(user|recipients?|mail-?box|addressee|address|account|alias|name|member|customer|email)\b"
    r".{0,60}\brejected(?! by\b)"
)
"""Words that give no reason: they count only without a code of security or policy."""

NOT_ABOUT_US: Final = (
    r"^(?!.*(spam|polic|block|\bden(y|ied)|reputation|(black|white|allow) ?list|sender|\bip\b"
    r"|client|\blisted (in|at|on|by)|authenti|authori|relay|dmarc|\bspf\b|dkim|content|unsolicited"
    r"|virus|(message|mail) (was |is |has been )?(rejected|refused)|permission|restrict|want"
    r"|accept\w* |(your|sending) (e?-?mail|message|domain|server|address|account)|\bonly\b|\bfrom\b"
    r"|header|connection|\bdns\b|gr[ea]y-?list|later|quota|limit|full\b|\brate\b|forward|database)).*"
)
"""Nothing in a reply is about our server, the sender or the content."""
