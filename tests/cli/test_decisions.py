"""`payclient decisions`: from a work list to the next run."""

import openpyxl
import pytest

from payclient.testing import Reply
from support.reports import rows_of, summary_of

LINES = ("T1,15500,Paid", "T2,9000,Canceled", "T3,1,Paid")


@pytest.fixture
def run(night):
    """Reconcile a ledger into a folder of this name."""

    def run(name, *arguments, lines=LINES, **options):
        return night(name, "--quiet", *arguments, lines=lines, **options)

    return run


@pytest.fixture
def first(run, prepared, tmp_path):
    """Give the folder of a first run."""
    prepared("first", lambda: run("first"))
    return tmp_path / "first"


@pytest.fixture
def take(command):
    """Take the decisions of a work list, which are written into it first."""

    def take(path, *arguments, by="ana", **resolutions):
        write(path, **resolutions)
        return command("decisions", str(path), "--by", by, *arguments)

    return take


@pytest.fixture
def accepted(first, take):
    """Give the folder of a first run, of which one break was accepted."""
    assert take(first / "report.xlsx", T1="accepted until 2999-12-31").status == 0
    return first


def write(path, **resolutions):
    """Write resolutions by reference into a work list, each with an owner and a comment."""
    book = openpyxl.load_workbook(path)
    sheet = book["Breaks"]
    places = {cell.value: cell.column for cell in sheet[1]}
    for row in range(2, sheet.max_row + 1):
        if resolution := resolutions.get(sheet.cell(row, places["Reference"]).value):
            for title, value in (("Owner", "Ana"), ("Resolution", resolution), ("Comment", "agreed")):
                sheet.cell(row, places[title]).value = value
    book.save(path)


def test_covers_the_row(run, first, take, service, tmp_path):
    """A decision covers all findings that the row had, so that an accepted payment is matched the next night."""
    service.add(reference="T4", amount=100_000, fee=1_000, amount_received=99_000, status="Paid")
    header, shows = "reference,amount,fee,amount_received,status", ["T4,100500,1000,99500,Paid"]
    assert run("one", lines=shows, header=header).status == 1
    (row,) = rows_of(tmp_path / "one")
    assert [each["code"] for each in row["findings"]] == ["underpaid", "net_differs"]
    result = take(tmp_path / "one" / "report.xlsx", T4="accepted until 2999-12-31")
    assert result.out.startswith("1 decision taken into")
    assert run("two", "--previous", "one", lines=shows, header=header).status == 0
    service.add(reference="T4", amount=100_000, fee=900, amount_received=99_000, status="Paid")
    assert run("three", "--previous", "two", lines=shows, header=header).status == 1  # a finding that it had not
    (row,) = rows_of(tmp_path / "three")
    assert [each["code"] for each in row["findings"] if not each["waived"]] == ["short_received", "fee_differs"]


def test_covers_the_money(run, take, service, tmp_path):
    """A decision about words is in force up to the money that was at stake, of each row of a reference."""
    until = "accepted until 2999-12-31"
    service.add(reference="T4", amount=100, status="Pending")
    first, both = ["T4,100,Paid", "T4,900,Paid", "T5,100,Paid"], {"T4": until, "T5": until}
    service.add(reference="T5", amount=100, merchant_reff="OTHER", status="Paid")
    header = "reference,amount,status,merchant_reff"
    assert run("one", lines=[f"{line},INV-0001" for line in first], header=header).status == 1
    assert take(tmp_path / "one" / "report.xlsx", **both).status == 0
    for name, amount, least in (("two", 100, 0), ("three", 90, 0), ("four", 1_000_000, 1)):
        service.add(reference="T5", amount=amount, merchant_reff="OTHER", status="Paid")
        lines = [*(f"{line},INV-0001" for line in first[:2]), f"T5,{amount},Paid,INV-0001"]
        assert run(name, "--decisions", "one", lines=lines, header=header).status == least, name
        assert [each["reference"] for each in rows_of(tmp_path / name) if each["bucket"] == "break"] == ["T5"] * least
    service.add(reference="T4", amount=1_000_000, status="Pending")
    lines = ["T4,100,Paid,INV-0001", "T4,1000000,Paid,INV-0001"]
    assert run("five", "--decisions", "one", lines=lines, header=header).status == 1


def test_resumed_after_decisions(run, first, take, command, service, tmp_path):
    """A run that follows a report is resumed although decisions were taken into that report since."""
    tonight = ("second", "--previous", str(first), "--max-concurrency", "1")
    service.script("T3", Reply(status=403), Reply(status=403))
    assert run(*tonight).status == 1
    assert summary_of(tmp_path / "second")["buckets"]["unresolved"]["rows"] == 1
    assert take(first / "report.xlsx", T1="corrected in the ledger").status == 0
    assert command("report", str(first), "--quiet").status == 1
    resumed = run(*tonight)
    assert (resumed.status, resumed.err) == (1, "")
    assert summary_of(tmp_path / "second")["buckets"]["unresolved"]["rows"] == 0


def test_resumed_after_a_withdrawal(run, accepted, take, service, tmp_path):
    """An acceptance that was taken back while a night was interrupted is not in force when it is resumed."""
    tonight = ("second", "--previous", "first", "--max-concurrency", "1")
    service.script("T3", Reply(status=403), Reply(status=403))
    assert run(*tonight).status == 1
    first = summary_of(tmp_path / "second")
    assert first["buckets"]["matched"]["rows"] == 1
    assert take(accepted / "report.xlsx", T1="raised with the service").status == 0
    assert (run(*tonight).status, run(*tonight).err) == (1, "")
    resumed = summary_of(tmp_path / "second")
    assert (resumed["run"], resumed["buckets"]["matched"]["rows"]) == (first["run"], 0)


def test_folders_that_are_not_followed(run, accepted, take, tmp_path):
    """A run beside the chain, and a folder that was moved away with decisions in force, are named."""
    assert run("second", "--previous", "first", lines=LINES[:2]).status == 1  # another run, even in the same second
    for name, before in (("third", "first"), ("fourth", "third")):
        told = run(name, "--previous", before).err
    where, end = tmp_path / "second", "run its ledger again, with another --out and --previous third"
    fork = f"payclient: the run in '{where}' follows a run before third, so its breaks are not followed here: {end}\n"
    assert told == fork
    decided = summary_of(accepted)["run"]
    (tmp_path / "kept").mkdir()
    accepted.rename(tmp_path / "kept" / "first")
    told = run("fifth", "--previous", "third").err
    what = f"the folder of the run {decided} is not beside third, so what was decided there since is not known"
    assert told == f"{fork}payclient: {what}: name it with --decisions\n"
    assert take(tmp_path / "kept" / "first" / "report.xlsx", T1="raised with the service").status == 0
    assert run("sixth", "--previous", "third", "--decisions", "kept/first").err == fork
    assert summary_of(tmp_path / "sixth")["buckets"]["matched"]["rows"] == 0


def test_list_of_an_earlier_night(run, first, take, tmp_path):
    """Friday's work list comes back on Monday: the next night knows it, unless somebody has decided since."""
    assert run("second", "--previous", "first").status == 1
    assert run("third", "--previous", "second").status == 1
    late = {"T1": "accepted until 2999-12-31", "T2": "accepted until 2999-12-31", "T3": "raised with the service"}
    assert take(first / "report.xlsx", **late).status == 0
    assert take(tmp_path / "third" / "report.xlsx", T3="accepted until 2999-12-31").status == 0
    path = tmp_path / "second" / "decisions.jsonl"
    path.write_text("not what payclient writes\n")
    result = run("fourth", "--previous", "third")  # it may have had what was taken back
    assert (result.status, result.err) == (
        2,
        f"payclient: {path}: line 1: it was changed, or payclient did not write it\n",
    )
    path.unlink()
    assert run("fourth", "--previous", "third").status == 0
    assert run("fifth", "--previous", "fourth").status == 0
    assert lines_of(tmp_path / "fifth") == lines_of(tmp_path / "fourth")


def test_withdrawn(run, first, take):
    """An acceptance that is taken back in the same work list is not in force in any later night."""
    assert take(first / "report.xlsx", **dict.fromkeys(("T1", "T2", "T3"), "accepted until 2999-12-31")).status == 0
    assert run("second", "--previous", "first").status == 0
    assert take(first / "report.xlsx", T1="raised with the service").status == 0
    assert run("third", "--previous", "second").status == 1


def test_withdrawn_after_a_rejudge(run, accepted, take, command):
    """The work list belongs to the run that was judged again, so that is where an acceptance is taken back."""
    others = dict.fromkeys(("T2", "T3"), "accepted until 2999-12-31")
    assert take(accepted / "report.xlsx", **others).status == 0
    assert command("rejudge", "first", "--out", "again").status == 0
    assert take(accepted / "report.xlsx", T1="raised with the service").status == 0
    assert run("second", "--previous", "again").status == 1
    assert run("third", "--previous", "second").status == 1


def test_into_a_rejudged_run(run, first, take, command, tmp_path):
    """A decision in the folder of the run that was judged again counts in the night after that run, too."""
    assert command("rejudge", "first", "--out", "again").status == 1
    decided = dict.fromkeys(("T1", "T2", "T3"), "accepted until 2999-12-31")
    assert take(tmp_path / "again" / "report.xlsx", **decided).status == 0
    assert run("second", "--previous", "first").status == 0


def test_two_folders(run, first, take, tmp_path):
    """The decisions that are asked for and those of the previous run count together."""
    assert run("second", "--previous", "first").status == 1
    assert take(first / "report.xlsx", **dict.fromkeys(("T1", "T2"), "accepted until 2999-12-31")).status == 0
    assert take(tmp_path / "second" / "report.xlsx", T3="accepted until 2999-12-31").status == 0
    (tmp_path / "kept").mkdir()
    first.rename(tmp_path / "kept" / "first")
    assert run("third", "--previous", "second", "--decisions", "kept/first").status == 0


def lines_of(folder):
    """Return the lines of the decisions in a folder."""
    return (folder / "decisions.jsonl").read_text().splitlines()


def shown(path):
    """Return owner, resolution and comment by reference."""
    sheet = openpyxl.load_workbook(path)["Breaks"]
    places = {cell.value: cell.column - 1 for cell in sheet[1]}
    return {
        row[places["Reference"]]: tuple(row[places[title]] for title in ("Owner", "Resolution", "Comment"))
        for row in sheet.iter_rows(min_row=2, values_only=True)
    }


def test_from_night_to_night(run, first, take, command, tmp_path):
    """What was decided shows in the report, counts in the next run, and is known there; nothing else is changed."""
    second = tmp_path / "second"
    result = take(first / "report.xlsx", T1="accepted until 2999-12-31", T3="corrected in the ledger")
    taken = f"2 decisions taken into {first}/decisions.jsonl; 0 known before"
    assert (result.status, result.out.splitlines()[0]) == (0, taken)
    assert result.following == [["rejudge", str(first), "--out", f"{first}-rejudged"]]
    rows = (first / "rows.jsonl").read_bytes()
    assert command("report", str(first), "--quiet").status == 1
    assert command("verify", str(first)).status == 0
    assert (first / "rows.jsonl").read_bytes() == rows
    assert shown(first / "report.xlsx") == {
        "T1": ("Ana", "accepted until 2999-12-31", "agreed"),
        "T2": (None, None, None),
        "T3": ("Ana", "corrected in the ledger", "agreed"),
    }
    assert "0 decisions taken" in command("decisions", str(first / "report.xlsx"), "--by", "ana").out
    before = {path.name: path.read_bytes() for path in first.iterdir()}
    assert run("second", "--decisions", "first").status == 1
    assert {path.name: path.read_bytes() for path in first.iterdir()} == before
    summary = summary_of(second)
    assert (summary["buckets"]["matched"]["rows"], summary["buckets"]["break"]["rows"]) == (1, 2)
    assert [each["reference"] for each in summary["still_there"]] == ["T3"]
    assert shown(second / "report.xlsx")["T3"] == ("Ana", "corrected in the ledger", "agreed")
    assert command("verify", str(second)).status == 0


def test_runs_after(run, accepted, take, command, tmp_path):
    """A run keeps the decisions that it began with, with `--decisions` first; a second judgement takes them too."""
    second, again = tmp_path / "second", tmp_path / "again"
    result = run("second", "--previous", "first")  # whose work list is as it was edited
    assert (result.status, result.err, summary_of(second)["buckets"]["break"]["rows"]) == (1, "", 2)
    files = {name: (second / name).read_bytes() for name in ("rows.jsonl", "summary.json")}
    assert take(second / "report.xlsx", T3="accepted until 2999-12-31").status == 0
    assert run("second", "--previous", "first", "--decisions", "first").status == 1
    assert {name: (second / name).read_bytes() for name in files} == files
    run("third", "--previous", "first", "--decisions", "second")
    assert summary_of(tmp_path / "third")["buckets"]["break"]["rows"] == 1
    command("rejudge", "first", "--out", "again", "--quiet")
    judged = summary_of(again)
    assert (judged["buckets"]["break"]["rows"], judged["judged_again"]["changed_rules"]) == (2, ["accepted"])
    assert command("verify", "again").status == 0
    assert (again / "decisions.jsonl").read_bytes() == (accepted / "decisions.jsonl").read_bytes()


def test_refused(run, first, take, command, tmp_path):
    """No name, a work list without its run, a changed report or changed decisions are refused."""
    path = first / "report.xlsx"
    assert (take(path, by=" ", T2="accepted until 2999-12-31").status, (first / "decisions.jsonl").exists()) == (
        2,
        False,
    )
    assert take(path).status == 0
    mailed = path.rename(tmp_path / "mailed.xlsx")
    assert "no report found at" in take(mailed, T1="raised with the service").err
    assert take(mailed, "--folder", str(first)).status == 0
    (first / "breaks.csv").unlink()
    assert (run("second", "--previous", "first").status, (tmp_path / "second").exists()) == (2, False)
    decisions = first / "decisions.jsonl"
    decisions.write_bytes(decisions.read_bytes().replace(b"raised", b"Raised"))
    verified = command("verify", str(first))
    assert (verified.status, "decisions.jsonl: line 2: it was changed" in verified.out) == (1, True)
    assert command("report", str(first)).status == 2
    decisions.unlink()
    with (first / "rows.jsonl").open("a") as file:
        file.write("{}\n")
    assert "rows.jsonl: it was changed" in take(mailed, "--folder", str(first)).err


def test_accepted_row_leaves(run, accepted, take, tmp_path):
    """A row that was accepted is asked about after it left the ledger, so that it is a break again when that ends."""
    (tmp_path / "rules.toml").write_text("may_leave = true\n")
    assert take(accepted / "report.xlsx", T2="accepted until 2999-12-31", T3="accepted until 2999-12-31").status == 0
    for before, night in (("first", "second"), ("second", "third")):
        assert run(night, "--previous", before, "--rules", "rules.toml", lines=["T4,1,Paid"]).status in (0, 1)
        left = {each["reference"]: each["bucket"] for each in rows_of(tmp_path / night) if each["carried_from"]}
        assert left == dict.fromkeys(("T1", "T2", "T3"), "matched")
    assert take(accepted / "report.xlsx", T1="raised with the service").status == 0
    run("fourth", "--previous", "third", "--rules", "rules.toml", lines=["T4,1,Paid"])
    left = {each["reference"]: each["bucket"] for each in rows_of(tmp_path / "fourth") if each["carried_from"]}
    assert left == {"T1": "break", "T2": "matched", "T3": "matched"}


def test_carried_row(run, first, take, tmp_path):
    """A row that was carried over from the previous run is decided like any other, also where it has another's line."""
    run("second", "--previous", "first", lines=["T3,2,Paid"])
    work_list = tmp_path / "second" / "report.xlsx"
    result = take(work_list, T1="raised with the service", T3="corrected in the ledger")
    assert (result.status, result.out[:18]) == (0, "2 decisions taken ")
