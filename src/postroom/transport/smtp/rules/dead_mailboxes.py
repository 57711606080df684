"""Words for a mailbox that is dead: mailbox, user or address, and what is wrong with it. They count
unless a rule that comes first says that the reply is about the sender or its message.

Most patterns are made of three vocabularies: who it is about, what is wrong with them after it
("user ann does not exist"), and what may come before it ("unknown user"). A reply that names nobody
is about the address that it begins with, which the text does not contain any more.
"""

from __future__ import annotations

from typing import Final

from postroom.transport.smtp.rules.foreign_words import A_DOMAIN, A_NAME, MAILBOX_IS_GONE

_WHO: Final = (
    r"(?:users?|usr|recipients?|rcpt|mail[- ]?box(?:es)?|mbox|in-?box|mail ?(?:drop|dir|file)"
    r"|addressees?|address(?:es)?|addr|accounts?|acct|alias(?:es)?|(?:user[- ]?)?name|user-?id"
    r"|member|customer|subscriber|e-?mail|person|employee|local[-_ ]?part|(?<!message[- ])id)"
)

# — What is wrong with them —

_HERE: Final = r"(?:in|on|at|with|by|to|part of|one of|a member of|from)"
_NOT_SO: Final = (
    r"\b(?:not|\w{1,9}n'?t|cannot|never|no(?= exist)) (?:is |be |been |yet |currently |an? |the "
    r"|any |\w+ly )*(?:found|known|recogni[sz]ed|exist\w*|exits?|valid|match\w*|local|listed|active"
    r"|activated|available|(?:permitted|allowed|authori[sz]ed) to receive(?! (?:\w+ ){0,3}(?:from"
    r"|external|in)\b)|deliverable|existing|in (?:active )?use|used|in service|enabled|provisioned"
    r"|configured|registered|assigned|allocated|served|serviced|set up|created|defined|monitored"
    r"|correct|accessible|associated|correspond|paid|here\b|live\b|hosted|handled|located"
    r"|identified|resolved|resolvable|present|belong|accepted here"
    r"|accepting (?:any )?(?:e-?)?(?:mails?|messages?)(?! (?:from|in|with)\b)|verifiable"
    rf"|{_HERE} (?:(?:our|my|the|this|any|that) )?(?:\w+ )?(?:maps?|lists?|director(?:y|ies)"
    rf"|databases?|systems?"
    r"|servers?|tables?|domains?|users?|addresses|site|records)|in directory|in (?:ldap|ad)\b)"
)
_STATES: Final = (
    r"\b(?:un(?:known|recogni[sz]ed|deliverable|registered|assigned|allocated|resolvable|resolved"
    r"|verifiable|acceptable|accessible|paid|avai?l?i?able|availible|identified|used|route?able)"
    r"|in(?:exist[ae]nt|accessible)|non?[- ]?exist\w*|(?:in|de|des|dis)-?activ(?:e|ated|ed)\b"
    r"|disabled|discontinued|suspended|closed|cancell?ed|deleted|removed|terminated|(?:invalid"
    r"|incorrect|wrong)\b|bogus|misspel\w+|obsolete|expired|retired|no longer|purged|decommissioned"
    r"|abandoned|withdrawn|defunct|dormant|deceased|passed away|dead|on hold|ceased|(?:shut"
    r"|switched|turned) (?:down|off)|taken offline|(?:has|have) ended|bounce[sd] perm\w+"
    r"|out of service|revoked|must exist|undefined|vanished|dropped from|lapsed|archived|moved"
    r"|changed\b|(?:has|have|is) (?:gone|left)|never logged in|resigned|may not receive"
    r"|b?locked (?:\w+ )?(?:due to|because of|for|by reason of) (?:\S+ )?(?:inactiv|non-?us|unus"
    r"|non-?pay)\w*|lookup\b.{0,20}\bfail(?:ed|ure)(?! for)|(?:verification"
    r"|validation)(?: check)? failed)"
)
WRONG: Final = rf"(?:{_NOT_SO}|{_STATES})"
"""What is wrong with a mailbox, or with a sender."""

_BEFORE: Final = (
    r"(?:no|none|not an?|isn't an?|unknown|undefined|invalid|wrong|bad|bogus|non[- ]?exist(?:ent"
    r"|ant|ing)?|illegal|in-?active|disabled|expired|(?:de|in)activated|archived|unavailable"
    r"|suspended|closed|deleted|un-?recogni[sz]ed|unregistered|unassigned|undeliverable"
    r"|unverifiable|unresolvable|incorrect|unpaid|unused|badly formatted|unacceptable|improper"
    r"|unroute?able|(?:could ?n[o']t|could not|can ?not|can't|unable to|failed to|do ?n[o']t|don't"
    r"|not able to) (?:find|locate|identify|resolve|validate|verify|look ?up|know|recogni[sz]e"
    r"|have))"
)
_BETWEEN: Final = (
    r"(?:such|known|valid|current|local|active|registered|existing|virtual|generic|final|other|e-?"
    r"|e-?mail|mail|smtp|or|and|the|this|that|any|an?|your|destination|target|available|single"
    r"|internal|unknown|illegal|invalid|inactive|missing|forged|matching|found|rcpt|user|(?:entry"
    r"|records?) (?:for|of))"
)


def _near(one: str, other: str) -> str:
    """Return a pattern for one word a little before another."""
    return rf"\b{one}\b.{{0,60}}{other}"


DEAD_MAILBOX: Final = (
    _near(_WHO, WRONG),
    _near("(?<!client )(?:domains?|destination)", WRONG),
    rf"\b{_BEFORE}[ /,]+(?:{_BETWEEN}[ /,]+){{0,4}}(?:{_WHO}s?|destination|delivery|people|one"
    rf"|any(?:body|one)|lookup"
    r"|entry|match(?:es|ing)?)\b",
    # Names of errors: "RecipientNotFound", "user-unknown"
    r"\b(?:user|recip(?:ient)?|mailbox|account|address)s?[-.]?(?:is|has"
    r"|does)?[-.]?(?:not?[-.]?(?:found|exist|valid)|unknown|disabled|unavailable|invalid|inactive"
    r"|suspended|expired)|\bno[-.]?such[-.]?(?:user|recipient|mailbox|account|address)"
    r"|\b(?:unknown|invalid|inactive)[-.]?(?:user|recipient|mailbox|account)",
    # About the address that the reply begins with
    rf"^5..[ -]+(?:#?5\.\d+\.\d+\W+)?(?:rejected|error|failed|sorry)?\W*(?:(?:is|was|has|have|does"
    rf"|did) )?(?:now |currently |been )?{WRONG}(?!\W+(?:\w+ ){{0,2}}?(?:sender|client|host|server"
    rf"|error|reason|network|command"
    r"|argument|parameter|user.?agent|data|message|mail|content|header|format|character|encoding"
    r"|url|attachment|ip|ptr|dns|certificate|sequence|syntax|dkim|spf|helo|ehlo|domain of|date)\b)",
    # The user
    r"\b(?:nobody|no ?one|no person|no user|no account|no mailbox) (?:here|by|with|at|of)\b",
    r"\bdo(?:es)?(?:n't| not) know\b\W*$|\bdoesn't like\b",
    r"\b(?:has|have) (?:left|quit|departed|resigned|died)\b|\b(?:user|employee|member) left\b"
    r"|opted out|left (?:the|our) (?:company|organi[sz]ation)|employee left|\bplease (?:use|update"
    r"|note) my new\b|has (?:moved|changed (?:\w+ )?(?:e-?mail )?address)",
    r"\bno longer accept(?:s|ing|ed)?(?: here| by|\W*$| (?:any |new )?(?:e-?)?(?:mails?"
    r"|messages?)(?! from))",
    r"\bno longer receiv\w+ (?:e?-?mails?|messages?)\b(?! from)|\bdo(?:es)?(?:n't| not) (?:work"
    r"|live) here|\bnever heard of|\bno longer (?:exist|in use|valid|available|works?|employ|here"
    r"|at |on |active|member|an? |our |part of |using|with )",
    rf"{_WHO}\b.{{0,40}}\b(?:cannot|can't|could not|couldn't|unable to|does(?: not|n't)|will not"
    rf"|won't)"
    r" (?:be (?:verified|validated)|(?:receive|accept|have|get) (?!(?:any )?more\b)(?:an?y? "
    r"|new )*(?:e-?)?(?:mails?|messages?|mail-?box|account)\b(?! (?:from|in|with|that|this|larger"
    r"|bigger|over|of|due|at)\b))",
    rf"{_WHO}\b.{{0,20}}\b(?:has|have) (?:got )?no (?:e-?)?(?:mail|mail-?box|account)\b",
    r"(?:does|did|do)(?:n't| ?not) (?:exactly )?(?:match|exist|have an? (?:\w+ ){0,3}(?:account"
    r"|mailbox|delivery point))|(?:could|can)(?:n't| ?not) be (?:found|resolved|identified)\b",
    rf"{A_NAME} was(?:n't| not) found (?:at|in|on) {A_DOMAIN}",
    # The mailbox. One that is locked for nobody in particular is locked for all
    r"\b(?:user|mail ?box|account)s? (?:status )?(?:is |was |has been )?b?locked\b(?!,? ?(?:for|by"
    r"|from|using|as|too|because|due to)\b|\.? too many)",
    r"\b(?:user|mail ?box|account)\b.{0,30}\b(?:b?locked|suspended) (?:by|due to) (?:the "
    r"|an? )?(?:administrator|abuse team|non-?pay)|useraccount is locked",
    r"\bmail\b.{0,20}\b(?:receiving|reception|delivery)(?: is| was| has been)? (?:disabled"
    r"|suspended|stopped|turned off)|\bno ?activity\b|\b(?:extended|long|prolonged) inactivity\b"
    r"|\bno (?:recipient|user|account|mailbox) activity",
    r"\b(?:mail|delivery|messages?)\b.{0,20}\bnot\b.{0,20}\b(?:accepted|allowed|possible) (?:for"
    r"|to) this"
    rf" {_WHO}|mail delivery to this {_WHO} is not allowed|mailbox name not allowed",
    r"(?:not|n't|no longer) (?:able to |going to )?(?:handle|deliver|accept) (?:any )?(?:e?-?mail "
    r"|messages? )?(?:for|to) (?:this|that"
    rf"|the) {_WHO}|(?:do|does|will)(?:n't| not) accept (?:this|that|the|any) {_WHO}\b|\bcan(?:not"
    rf"|'t) deliver (?:e?-?mail )?for\b|\bnot deliverable\b",
    # Lists in which the recipient is missing
    r"\bnot (?:an? )?(?:user|recipient|account|mail ?box|address) (?:of|on|in|at|for)\b"
    r"|\bnot our\b|(?:not|n't) (?:one of )?our (?:own )?(?:user|customer|address)"
    r"|not a registered \w+ user",
    r"\bnot (?:found|known|present|listed|registered) (?:in|at|on|with) (?:the |our |this "
    r"|any )?(?:\w+ )?(?:directory|ldap|site|database|system|host|here|server|list|table)"
    r"|\bnot (?:found|present|listed) in (?:the |our |my )?(?:\w+ )?(?:name (?:&|and) address book"
    r"|(?:public|global|company|corporate|domino|notes) address (?:book|list))"
    r"|not present|isn't in my list|(?:bad|valid)[_ ]?rcpt(?:to)?\b|badrecipient"
    r"|rejected recipient",
    r"\b(?:failed recipient (?:verification|validation)|recipient verify\b.{0,20}\bfailed"
    r"|(?<!to )verify (?:the )?recipient\b(?! verif)|invalid rcpt)",
    r"\bno (?!permission|access|right)(?:\w+ ){1,3}(?:for|at|under|with) (?:this|that) (?:user"
    r"|address|name|recipient|account|mail-?box)\b",
    # Domains
    r"\bdomain\b.{0,20}\b(?:parked|suspended|disabled|discontinued|(?:not"
    r"|no longer) (?:\w+ )?hosted)(?! from)|(?:(?:do|does)(?:n't| not)|no longer) host (?:this"
    r"|that|the) domain",
    r"\b(?:web)?mail(?: service)?(?: has been| was| is) (?:discontinued|closed|shut down"
    r"|terminated)|no (?:smtp|e?mail) service|no longer provide e?mail"
    r"|service\b.{0,30}\bdiscontinued|\bnot (?:a )?local (?:host|domain)\b|\bnot (?:one of"
    r"|in) our (?:\w+ )?domains?\b|\bno dns (?:entry|entries|records?) for",
    # Other words of programs
    r"^5..[ -](?:\d\.\d\.\d+ )?(?:rejected: |address )?(?:unknown|undeliverable|not (?:existing"
    r"|local|found|known|used))(?: address| recipient)?\W*$",
    r"\bis (?:now |currently )?(?:disabled|inactive|closed|deactivated) (?:on|with|at|in|here)\b"
    r"|\bstatus: (?:closed|inactive)|\bdeliver to\b.{0,20}\bunknown\b|rejected: access denied"
    r"|missing home directory|user not |accept user|recipient (?:is )?(?:not ok|not accepted"
    r"|refuses)|name directory|does(?:n't| not) specify a valid|incorrectly addressed"
    r"|\blog ?in to enable\b",
    r"n'existe (?:pas|plus)|no existe|non esiste|bestaat niet|existiert nicht|n[ãa]o existe"
    r"|ei ole olemassa|не (?:существует|найден)|不存在|見つかりません|リストにありません",
    *MAILBOX_IS_GONE,
)
REJECTED_RECIPIENT: Final = rf"\b{_WHO}\b.{{0,60}}\brejected(?! by\b)"
"""Words that give no reason: they count only without a code of security or policy."""

_ABOUT_US: Final = (
    r"(?:spam|polic|suppress|block|\bden(?:y|ied)|reputation|(?:black|white|allow) ?list|sender"
    r"|\bip\b|client|\blisted (?:in|at|on|by)|authenti|authori|relay|dmarc|\bspf\b|dkim|content"
    r"|unsolicited|virus|(?:message|mail) (?:was |is |has been )?(?:rejected|refused)|permission"
    r"|restrict|want|accept\w* |(?:your|sending) (?:e?-?mail|message|domain|server|address|account)"
    r"|\bonly\b|\bfrom\b|header|connection|\bdns\b|\bbulk\b|\bhost\b|external|\brules?\b|challenge"
    r"|\bsend|gr[ea]y-?list|later|quota|limit|full\b|\brate\b|forward(?:ed|ing)|database)"
)
NOT_ABOUT_US: Final = rf"^(?!.*{_ABOUT_US}).*"
"""Nothing in a reply is about our server, the sender or the content."""

_OTHER_TROUBLE: Final = (
    r"(?:open|write|creat|lock|internal|system|file|error|busy|again|temporar|unique|ambig|several"
    r"|loop|hops?\b|log-?in|password|subscri|lists?\b|group|tls|encrypt|size|large|attach|timeout"
    r"|timed|your|you\b|we\b|problem|unverified|malformed|syntax|verify|access|without|this mail"
    r"|this e-?mail|this message)"
)
DENIED_RECIPIENT: Final = (
    rf"^5..[ -](?!.*{_ABOUT_US})(?!.*\b{_OTHER_TROUBLE}).*(?:\b{_WHO}\b.{{0,30}}\b(?:not|no|never"
    rf"|cannot|\w{{1,9}}n't|refused|bad|fail(?:ed)?)\b|\b(?:not|no|never|cannot|\w{{1,9}}n't"
    rf"|bad) (?:\w+ ){{0,3}}{_WHO}\b)"
)
"""Something about the recipient is denied. It counts only if nothing else is said."""
