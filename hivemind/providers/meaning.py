"""What a refusal means by its words alone, in whatever provider's: whether something is used up, or too much at once.

The list of wordings never ends, so these are words of money, plans and long windows on one side, and of short windows
on the other. Where nothing tells, the refusal is a throttle, because waiting in vain costs less than ending an agent.
"""

from __future__ import annotations

import re

from hivemind.providers.table import SEARCHED, Meaning, compiled

_URL = r"\b(?:https?://|www\.)\S+"
_JOINTS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=\w)[-_](?=\w)")
"""Where words are joined to a code: `insufficient_quota`, `free-models-per-day`, `RequestsPerDay`."""

_SOME = r"(?:(?!rate\b|concurren)[\w'’*]+ ){0,6}"
_GONE = (
    r"(?:exhaust|deplet|used|consum|insufficien|exceed|expir|r[au]n out|too low|not enough|empty|reach|hit\b"
    r"|over\b|gone\b|spent\b|zero\b|declin|suspend)"
)
_MONEY = r"(?:credits?|balance|funds?|wallet|budget|spend(?:ing)?|billing|payment|prepaid|resource package)"
_STRONG = (
    # Money, and verbs that say it is gone, in either order.
    rf"\b(?:insufficient|not enough|no|low|negative|zero|exhausted|depleted|used|out of|add|buy|purchase|need|requires?"
    rf"|exceed\w*|reached|hit) {_SOME}(?:credits?|balance|funds|wallet|budget|spend(?:ing)? (?:limit|cap))\b"
    rf"|\b{_MONEY} {_SOME}{_GONE}"
    rf"|\b(?:credits?|balance|usage|spend(?:ing)?|billing|payment|monthly|plan|session) (?:hard )?(?:limit|cap)\b"
    r"|\brecharge|\btop[ -]?up\b|\barrears?\b|\boverdue\b|\bunpaid\b|\bpayment required\b|\bpast invoices?\b"
    r"|\bhas been paused\b|\bsubscription (?:is |has |was )?(?:inactive|expired|ended|required|needed|limit|quota|not)"
    rf"|\bfree (?:plan |usage |tier )?(?:tier|quota|usage|trial|allowance|allocation|requests?|daily) {_SOME}{_GONE}"
    rf"|\bno (?:active|valid) subscription\b|\b(?:total|lifetime) limit\b|\bincluded (?:\w+ )?usage {_SOME}{_GONE}"
    rf"|\btrial {_SOME}(?:{_GONE}|ended|limited)"
    r"|\b(?:extra|additional|paid|overage) usage (?:is )?(?:required|needed|disabled)"
    rf"|\b(?:plan|subscription|allowance|allocation|entitlement|package|premium \w+) {_SOME}{_GONE}"
    rf"|{_GONE}\w* {_SOME}(?:allowance|allotted|entitlement|premium \w+)\b"
    rf"|\bquota {_SOME}(?:not enough|exhausted|depleted|used up|consumed|ran out|run out)\b"
    rf"|\b(?:exhausted|depleted|used up|consumed|run out of|out of) {_SOME}quota\b"
    r"|\b(?:balance|credits?)(?: is| of|:)* ?(?:[-−] ?[$€£¥]?\d|[$€£¥]? ?0(?:\.0+)?(?![.\d]))"
    r"|guthaben|aufgebraucht|épuisé|agotad[oa]|esgotad[oa]|saldo insuf|残高|クレジット\S{0,4}不足|利用上限|잔액"
    r"|余额不足|餘額不足|余额已|欠费|充值|续费|购买|套餐|(?:额度|配额|限额|次数)\S{0,4}(?:用完|用尽|耗尽|不足|超限)"
    r"|(?:使用|用量|消费)\S{0,2}(?:上限|限额)|过期|到期|付费"
)
_WEAK = (
    rf"\bcurrent (?:\w+ )?quota\b|\bplan and billing\b|\bbilling details\b|\binsufficient {_SOME}quota\b"
    rf"|\b(?:account|user|key|team|plan|subscription|seat|license)(?:['’]s)? {_SOME}(?:cap|quota|allotment)\b"
    rf"|\bno (?:remaining|more) quota\b|\b100 ?% of (?:your|the)\b|\bon demand usage\b"
    rf"|\bquota exceeded\b(?! for)|\bexceeded {_SOME}quota\b|\bupgrade (?:to|your|for)\b"
    rf"|\b(?:hit|reached|exceeded) your (?:\w+ )?limit\b|\bexceeds? {_SOME}quota\b"
)
"""Words that providers also use of a minute's quota."""
_LONG = (
    r"\b(?:per|by|a|each|this|next|until) (?:1 )?(?:day|week|month|year)\b|/ ?(?:day|week|month)\b|\bmidnight\b"
    r"|\b(?:daily|weekly|monthly|yearly|annual)|\b(?:rp|tp)d\b|\btoday\b|\btomorrow\b"
    r"|\b(?:[2-9]|\d\d) ?-?h(?:(?:ou)?rs?)?\b|mensuel|mensual|monatlich|diario"
    r"|今月|本日|每日|每天|今日|当日|当天|每周|本周|每月|本月|\d ?小时"
)
_SHORT = (
    r"\b(?:per|by|a|each|every) (?:\d+ ?)?(?:second|minute|min|sec|s|m)s?\b|/ ?(?:s|sec|second|min|minute|m)\b"
    r"|\b(?:rp|tp|qp)[ms]\b|\bminute\b|\b\d+ ?(?:second|minute|min|sec)s?\b|\bconcurren|\bparallel\b|\bin flight\b"
    r"|每分|毎分|1分|每秒|并发|频率|速率|过快|频繁"
)
_LATER = (
    r"too many requests|throttl|rate ?limit|slow ?down|temporar|overload|busy|capacity|high (?:demand|load|traffic)"
    r"|too (?:fast|quick|frequent)|try again (?:in a|later|shortly|soon)|burst|稍后"
)
_TOO_LARGE = r"\brequest (?:is )?too large\b|\btokens? must be reduced\b|\bmust be reduced\b"
_AGAIN = r"\bagain\b|\bretry\b"
_NEEDED = re.compile(r"\blimit:? (\d[\d,]*)\b.{0,60}?\brequested:? (\d[\d,]*)", re.I | re.S)


def plain_words(*texts: str) -> str:
    """Return texts and codes as words separated by spaces, in lower case, without addresses."""
    text = compiled(_URL).sub("", " ; ".join(filter(None, texts))[: 2 * SEARCHED])
    return _JOINTS.sub(" ", text)[:SEARCHED].lower()


def meaning_of(words: str) -> Meaning | None:
    """Return what :func:`plain_words` mean; None: a throttle, or nothing that tells."""
    needed = _NEEDED.search(words)
    if needed is not None and int(needed[2].replace(",", "")) > int(needed[1].replace(",", "")):
        return Meaning.TOO_LARGE
    if _found(_TOO_LARGE, words) and not _found(_AGAIN, words):
        return Meaning.TOO_LARGE
    short, long = _found(_SHORT, words), _found(_LONG, words)
    if short is not None and (long is None or short.start() < long.start()):
        return None  # the first window that is named is the one that refuses
    if long is not None or _found(_STRONG, words):
        return Meaning.USED_UP
    return Meaning.USED_UP if _found(_WEAK, words) and not _found(_LATER, words) else None


def _found(pattern: str, words: str) -> re.Match[str] | None:
    return compiled(pattern, 0).search(words)  # without regard to case it would take twice as long
