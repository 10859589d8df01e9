"""Words that have been replaced, as patterns, each with the word to write instead."""

from __future__ import annotations

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
    r"PerSecond|PerWindow|Concurrent": "TokenBucket, FixedWindow, ConcurrencyLimit",
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

ALLOWED = {
    "docs/changelog.md": "it names what has been renamed",
}
"""Files that may use the words, each with the reason."""
