"""
The result of a report as Markdown, for a chat message or the summary of a job.

Text from the ledger or the service is always in a code span, where no renderer looks for markup, links, mentions or
HTML. Characters that could end one, or act where there are no code spans, are shown by number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Any

from payclient._escape import escape_unprintable, plural
from payclient.reconcile import Bucket, Severity

_MAX_LENGTH = 160
_SHOWN_BY_NUMBER = re.compile("<(U\\+[0-9A-F]{4,6})>")
_MARKUP = re.compile(r"[`|<>&\\]")
_NOT_PLAIN = re.compile(r"[^\w ,.;:()'+/%=-]")


def code_span(text: str) -> str:
    """Return *text*, whatever it is, as a code span of one line that nothing in it can end."""
    text = _SHOWN_BY_NUMBER.sub(r"(\1)", escape_unprintable(text, max_length=_MAX_LENGTH))
    text = _MARKUP.sub(lambda match: f"(U+{ord(match[0]):04X})", text)
    return f"`{text}`" if text.strip() else "none"


def _plain(sentence: str) -> str:
    """Return a sentence of the report; a folder may be named in it, whose name could be markup."""
    return _NOT_PLAIN.sub(lambda match: f"(U+{ord(match[0]):04X})", escape_unprintable(sentence))


def worst_breaks(lines: Iterable[bytes], count: int) -> list[dict[str, Any]]:
    """Return the first *count* breaks of `rows.jsonl`, the most severe and then the largest first."""
    return nlargest(count, (row for row in map(json.loads, lines) if row["bucket"] == Bucket.BREAK), key=_rank)


def _rank(row: dict[str, Any]) -> tuple[int, int]:
    first = row["findings"][0]
    return Severity[first["severity"].upper()], first["at_stake"] or 0


def markdown_lines(summary: Mapping[str, Any], worst: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the message."""
    yield f"**{summary['verdict'].upper()}**: {_plain(summary['sentence'])}"
    yield ""
    yield from _about(summary)
    if worst:
        breaks = summary["buckets"]["break"]["rows"]
        yield ""
        yield f"{plural(breaks, 'break')}:" if breaks == len(worst) else f"The worst of {plural(breaks, 'break')}:"
        yield ""
        for number, row in enumerate(worst, 1):
            finding = row["findings"][0]
            what = f"**{finding['severity']}** {code_span(finding['code'])} {code_span(row['reference'] or '')}"
            yield f"{number}. {what}: {code_span(finding['sentence'])}"


def _about(summary: Mapping[str, Any]) -> Iterator[str]:
    bridge, service, ledger = summary["tie_out"], summary["service"], summary["ledger"]
    yield (
        f"- Paid: {bridge['ledger_paid_total']:,} in the ledger, {bridge['service_paid_total']:,} at the service; "
        f"residual {bridge['residual']:,}"
    )
    if (settlement := summary["settlement"]) is not None:
        payout = "" if settlement["payout"] is None else f", payout {settlement['payout']:,}"
        yield f"- Statement: {settlement['statement_total']:,}{payout}; residual {settlement['residual']:,}"
    if (since := summary["since"]) is not None:
        breaks, was = summary["buckets"]["break"]["rows"], since["buckets"].get("break", 0)
        yield f"- Breaks: {breaks:,} ({_signed(breaks - was)} since the previous run, {code_span(since['folder'])})"
    if ledger is not None:
        yield f"- Ledger: {code_span(ledger['name'] or 'standard input')}"
    if service["environment"]:
        yield f"- Service: {code_span(service['environment'])}"
    if summary["last_observed_at"]:
        yield f"- As of {summary['last_observed_at'][:19].replace('T', ' ')} UTC"
    if summary["run"]:
        yield f"- Run: {code_span(summary['run'])}"
    if (again := summary["judged_again"]) is not None:
        yield f"- A second judgement of the run in {code_span(again['folder'])}"
    if summary["ended_by"]:
        yield f"- Ended early: {code_span(summary['ended_by'])}"
    if summary["compared"]["remark"]:
        yield f"- {_plain(summary['compared']['remark'])}"


def _signed(number: int) -> str:
    return f"{number:+,}" if number else "\N{PLUS-MINUS SIGN}0"
