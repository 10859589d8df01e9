"""Words that have been replaced, as patterns, each with the word to write instead."""

REPLACED = {
    r"storeys?": "layer",
    r"lanes?|Stale_?Lane": "connection, pooled connection",
    r"(?:go|goes|going|gone|went) on with": "resume",
    r"begun again": "restart",
    r"_?(?:MOST|LONGEST|FEWEST)_[A-Z_]+": "MAX_…, MIN_…",
    r"first_backoff": "initial_backoff",
    r"longest_(?:backoff|pause)": "max_backoff, max_retry_after",
    r"alarms?": "time-out",
    r"wind_up|wound up": "schedule",
    r"flights": "in-flight request",
    r"patience": "remaining time",
    r"witness(?:es)?": "answers when sent, known-good probe",
    r"struck off": "expired",
    r"strikes|denials|fates?|rulings?": "failed passes, forbidden in a row, disposition, decision",
    r"piles?": "groups",
    r"leftovers?": "stale temporary files",
    r"oddit(?:y|ies)": "malformed responses",
    r"is_dead": "never_responds",
    r"Resident|_Home": "background client, per-process registry",
    r"doubted": "needs confirmation",
    r"PerSecond|PerWindow|Concurrent": "bucket, window, at_once",
    r"turnstiles?": "concurrency limit",
    r"plantation|soil|uprooted": "seeded dataset",
    r"mourn|mourned|dismiss|dismissed": "record a crash, shut down",
    r"farewell|good-bye|shakes? hands|shake_hands": "close_notify, handshake",
    r"known again": "fingerprint, checksum",
    r"Shape:": "Note:",
    r"anew": "again",
    r"of (?:its|their|his) own": "own",
    r"so many": "the number",
    r"all the same": "still",
    r"whoever|nobody|somebody": "name who",
    r"say whether": "return whether",
    r"out of the (?:iteration|block)": "from the iteration, from the block",
    r"this is no": "this is not a",
    r"mend(?:s|ed)?": "correct, repair",
    r"as (?:it|they) came": "unchanged, as received",
    r"of (?:ours|yours)": "our own, your own",
    r"in the place of": "instead of",
    r"however often": "repeatedly, any number of times",
    r"passing (?:reasons?|failures?)": "temporary",
    r"stands? (?:beside|behind|twice)": "is next to, comes after, is duplicated",
}

_ALL = r"(?:one|those|all|any|that) (?:that|which)"
_NONE = (
    r"(?:has|have|had|with|is|are|was|were) (?:no|none|nothing)|(?:is|has) neither|neither (?:is|has)|none (?:is|are)"
)
HABITS = {
    r"^# (?:of|in|by|for|else|also|none|no)\b": 15,
    rf"\b{_ALL}\b": 6,
    r"\b(?:in|by|to|over|for|of|on|from|with|at|under|after|until|through) which\b": 2,
    r"\b(?:says?|said|saying|tells?|told|telling)\b": 4,
    rf"\b(?:{_NONE})\b": 33,
    r"\bas (?:[\w']+ ){1,3}?(?:has|have|takes?|writes?|gives|reads|spells) (?:it|them)\b": 2,
    r"\b(?:alone|only)(?=[.,;:)\n]|$)": 6,
    r";(?=\s)": 114,
    r"\b(?:whatever|whether or not|at present|meanwhile|whoever|whichever)\b": 2,
    r"\b(?:made|comes?|came|coming|holds?|held)\b": 13,
}
"""Stiff habits of our prose, as patterns, and how often each may stand in the package: as today, and twice more."""

VAGUE = frozenset({"each", "found", "given", "known", "place"})
VAGUE_USES = 228
"""Names that do not name the thing, and how often a variable of the package has one."""

ALLOWED = {"docs/changelog.md": "it names what has been renamed"}
"""Files that may use the words, each with the reason."""
