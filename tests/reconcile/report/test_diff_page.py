"""The page of a difference: it has every count, the worst breaks of each state, and cannot be made to do anything."""

from __future__ import annotations

import json
import re

import attrs
import pytest

from payclient import errors
from payclient.reconcile import Bucket, Code, Finding, Rules
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import RunDiff
from payclient.reconcile.report._page import write_diff_page
from support.nights import Nights, paid
from support.pages import HOSTILE, Page, is_harmless, shape_of
from support.reports import row, run_of

REFUSED = errors.PermissionDeniedError("the service refuses this caller")


def page_of(folder, earlier, later, **options):
    """Return the page about two runs, as text."""
    path = folder / "page.html"
    with RunDiff(earlier, later) as diff:
        write_diff_page(path, diff, **options)
    return path.read_text(encoding="utf-8")


@pytest.fixture
async def runs(tmp_path):
    """Give two runs of three, with a break in each state."""
    night, before = Nights(tmp_path), None
    said = [
        {"R1": paid("R1", 5)},
        {"R1": paid("R1"), "S1": paid("S1", 5), "C1": paid("C1", 5), "G1": paid("G1", 5), "U1": paid("U1", 5)},
        {
            "R1": paid("R1", 5),
            "S1": paid("S1", 5),
            "C1": paid("C1", 6),
            "G1": paid("G1"),
            "N1": paid("N1", 5),
            "U1": REFUSED,
        },
    ]
    done = []
    for answers in said:
        entries = [Entry(line=line, reference=each, amount=9, status="Paid") for line, each in enumerate(answers, 2)]
        before = await night(entries, answers, previous=before)
        done.append(before.run)
    return done[1:]


def test_states(runs, tmp_path):
    """Each state has its count and its breaks, with what was said before, by what it is gone, and its age."""
    page = Page(page_of(tmp_path, *runs))
    assert (page.all("h1"), page.all("p", class_="says")) == (
        ["News"],
        ["1 new, 1 still open, 1 changed, 1 reopened; 1 resolved, 1 not known since night-2."],
    )
    assert page.all("p", class_="count") == ["1"] * 6
    assert ("Earlier run night-2 " in page.text, "Later run night-3 " in page.text) == (True, True)
    bodies = [re.sub(r" 02:00:\d\d", "", " ".join(text.split())) for text in page.all("tbody")]
    less = "high amount is 9 in the ledger and 5 at the service, which is 4 less underpaid"
    changed = "high amount is 9 in the ledger and 6 at the service, which is 3 less underpaid"
    assert bodies == [
        "Open before 4 16 New 1 4 Reopened 1 4 Resolved \u22121 \u22124 Changed (1) \u22121 Open now 5 19",
        f"N1 {less} 9 5 2026-11-23",
        f"C1 {changed} Before: 9 in the ledger, 5 at the service; 4 at stake, and 3 now 9 6 2026-11-22 1 day",
        f"R1 {less} 9 5 2026-11-21 2 days",
        f"S1 {less} 9 5 2026-11-22 1 day",
        f"G1 {less} Resolved by the service 9 5 2026-11-22 1 day",
        f"U1 {less} {reason_of(runs)} 9 5 2026-11-22 1 day",
    ]


def reason_of(runs):
    with RunDiff(*runs) as diff:
        (lost,) = json.loads("\n".join(diff.as_json()))["not_known"]
    return lost["reason"]


def test_rules(tmp_path):
    """The rules that changed in between are named, and without a break there is no news."""
    runs = run_of(tmp_path, "a", []), run_of(tmp_path, "b", [], rules=Rules(require=["amount"]))
    page = Page(page_of(tmp_path, *runs))
    assert (page.all("h1"), page.all("p", class_="next")) == (
        ["No news"],
        ["Rules that changed in between: require."],
    )
    assert len(page.all("table")) == 1


def test_bounded(tmp_path):
    """Of many breaks the most severe are shown, and how many there are, and what prints the others."""
    many = [row(f"T{number}", Code.FEE_DIFFERS) for number in range(9)]
    worst = row("W", Code.UNDERPAID)
    page = Page(page_of(tmp_path, run_of(tmp_path, "a", []), run_of(tmp_path, "b", [*many, worst]), room=3))
    assert page.all("p", class_="cut") == ["3 of 10 shown, the most severe; payclient diff --json prints all."]
    assert page.all("th", scope="row")[-3:] == ["W", "T0", "T1"]
    assert page.all("p", class_="count") == ["10", "0", "0", "0", "0", "0"]


def hostile_runs(folder, text):
    """Return two runs in which every text of strangers is *text*."""

    def broken(reference, ledger, service=text):
        finding = Finding(Code.UNKNOWN_STATUS, text, ledger=ledger, service=service)
        return attrs.evolve(row(reference, Code.UNKNOWN_STATUS), findings=(finding,))

    earlier = [broken(f"{text}1", text), broken(f"{text}2", text), broken(f"{text}3", text)]
    lost = row(f"{text}3", bucket=Bucket.UNRESOLVED, reason=text)
    later = [broken(f"{text}0", text), broken(f"{text}1", "other"), row(f"{text}2"), lost]
    about = {"environment": text, "base_url": text, "key_fingerprint": text}
    return run_of(folder, "<b>a", earlier, **about), run_of(folder, "<i>b", later, **about)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile(tmp_path, text):
    """Text of strangers adds no tag and no attribute, and is shown as what it is, shortened."""
    pages = {}
    for name, each in (("plain", "plain"), ("hostile", text)):
        (tmp_path / name).mkdir()
        pages[name] = page_of(tmp_path / name, *hostile_runs(tmp_path / name, each))
    page = Page(pages["hostile"])
    assert shape_of(page) == shape_of(Page(pages["plain"]))
    assert (is_harmless(pages["hostile"]), len(pages["hostile"]) < 100_000) == (True, True)
    assert page.all("p", class_="count") == ["1", "1", "0", "0", "1", "1"]
    assert "<b>a and <i>b compared" in page.all("title")[0]


def test_replaced(runs, tmp_path):
    """A page is replaced as a whole, is for its owner only, and leaves nothing else behind."""
    before = page_of(tmp_path, *runs)
    (tmp_path / "page.html").write_text("old")
    names = {path.name for path in tmp_path.iterdir()}
    assert page_of(tmp_path, *runs) == before
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600


def test_link(runs, tmp_path):
    """A link in the place of the page is refused, and where it leads stays as it was."""
    (tmp_path / "other").write_text("mine")
    (tmp_path / "page.html").symlink_to("other")
    with pytest.raises(OSError, match="no regular file"):
        page_of(tmp_path, *runs)
    assert (tmp_path / "other").read_text() == "mine"
