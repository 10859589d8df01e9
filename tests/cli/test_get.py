"""`payclient get`: rows for people, lines for programs, one exit status for all."""

from __future__ import annotations

import json

import pytest

from payclient.testing import MALFORMED, Reply


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def test_table(configured):
    """Without a terminal the table is aligned text in the order of the references, without empty columns."""
    assert (
        configured("get", "T2", "T1").out
        == """\
reference  status    amount   fee  amount_received  payment_method  payment_code      expdate              merchant_reff
T2         Canceled    7000     0             7000  VA              ************0001  2030-01-31 23:59:59  INV-2
T1         Paid       15000  2500            12500  VA              ************0001  2030-01-31 23:59:59  INV-1
"""
    )


def test_all_found(configured):
    """If everything was found, the status is 0 and standard error is empty."""
    result = configured("get", "T1", "T2")
    assert (result.status, result.err) == (0, "")


def test_json_found(configured):
    """A program gets the ten fields, the payment code in full, and what was tolerated."""
    assert lines(configured("get", "T1", "--json")) == [
        {
            "reference": "T1",
            "merchant_reff": "INV-1",
            "payment_method": "VA",
            "payment_name": "Virtual Account",
            "amount": 15000,
            "fee": 2500,
            "amount_received": 12500,
            "payment_code": "8800000000000001",
            "expdate": "2030-01-31 23:59:59",
            "status": "Paid",
            "deviations": [],
        },
    ]


def test_json_failed(configured):
    """A program gets the reference, the class, the message and whether to ask again."""
    assert lines(configured("get", "NOPE", "--json")) == [
        {
            "reference": "NOPE",
            "error": "TransactionNotFoundError",
            "message": "no such transaction: Transaction not found (HTTP 404)",
            "is_retryable": False,
        },
    ]


def test_deviations(configured, service):
    """Deviations are shown next to their row."""
    service.script("T1", MALFORMED["amount_as_text"])
    assert lines(configured("get", "T1", "--json"))[0]["deviations"] == ["amount: text '15000' read as integer"]


@pytest.mark.parametrize(
    ("references", "status"),
    [(["T1", "NOPE"], 1), (["T1", " "], 1), (["T1", "BUSY"], 75), (["NOPE", "BUSY"], 75)],
    ids=["not found", "not a reference", "no answer", "both"],
)
def test_status(configured, service, references, status):
    """The exit status of "could not ask" differs from that of "not found", and has priority."""
    service.script("BUSY", *[Reply(status=500)] * 4)
    assert configured("get", *references).status == status


def test_refused_key(configured, monkeypatch):
    """A refused key is reported once, in one line, with its own exit status."""
    monkeypatch.setenv("PAYCLIENT_API_KEY", "some-other-key")
    result = configured("get", "T1", "T2")
    assert (result.status, result.out, result.err) == (
        3,
        "",
        "payclient: the service refuses the API key: Invalid API key (HTTP 401)\n",
    )


def test_wrong_address(configured, base_url):
    """A page of some other web server is a wrong address and not a missing transaction."""
    one = configured("get", "T1", "--base-url", f"{base_url}/elsewhere")
    assert (one.status, "check base_url" in one.out) == (3, True)
    several = configured("get", "T1", "T2", "T3", "--base-url", f"{base_url}/elsewhere")
    assert (several.status, "check base_url" in several.err) == (3, True)


def test_nobody_there(configured):
    """A service that cannot be reached may be there later."""
    result = configured("get", "T1", "--base-url", "http://127.0.0.1:9", "--deadline", "0.2")
    assert (result.status, "no answer" in result.out) == (75, True)


def test_references_from_stdin(configured):
    """With `-` each line of standard input is a reference, blanks and byte order mark left out."""
    result = configured("get", "-", "--json", stdin=b"\xef\xbb\xbfT1\r\n\n  T2 \nT1")
    assert sorted(line["reference"] for line in lines(result)) == ["T1", "T1", "T2"]


def test_table_from_stdin(configured):
    """A small table from standard input is in the order of the lines."""
    result = configured("get", "-", stdin=b"T2\nT1\nNOPE\nT2\n")
    assert [line.split()[0] for line in result.out.splitlines()] == ["reference", "T2", "T1", "NOPE", "T2"]


def test_undecodable_line(configured):
    """A line that is not UTF-8 costs its own row and no other."""
    result = configured("get", "-", "--json", stdin=b"T1\n\xff\xfe\nT2\n")
    assert sorted(line.get("error", "") for line in lines(result)) == ["", "", "InvalidReferenceError"]


def test_empty_stdin(configured):
    """Empty standard input is not an error."""
    result = configured("get", "-", stdin=b"")
    assert (result.status, result.out) == (0, "")


def test_fatal_after_rows(configured, service):
    """Rows that were answered before the key was refused are not lost."""
    service.script("T2", Reply(status=401), Reply(status=401))  # asked again over a fresh connection
    result = configured("get", "-", "--max-concurrency", "1", stdin=b"T1\nT2\n")
    assert (result.status, result.out.split()[-1]) == (3, "INV-1")


def test_hostile_text(configured, service):
    """Escape sequences and direction marks of the service reach the terminal as plain text, also as JSON."""
    service.add(reference="T1", status="\x1b[31mPaid\u202e", merchant_reff="a\x9b2J\x7f")
    shown = configured("get", "T1").out + configured("get", "T1", "--json").out
    assert [character for character in shown if not character.isprintable() and character != "\n"] == []


def test_terminal(configured):
    """On a terminal, rows without a transaction are coloured."""
    result = configured("get", "T1", "NOPE", is_terminal=True)
    assert "\x1b[33m" in result.out


def test_no_color(configured, monkeypatch):
    """NO_COLOR takes the paint off."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33m" not in configured("get", "T1", "NOPE", is_terminal=True).out


def test_narrow_terminal(configured, monkeypatch):
    """On a terminal narrower than the table each field has its line."""
    monkeypatch.setenv("COLUMNS", "40")
    result = configured("get", "T1", is_terminal=True)
    assert result.out.splitlines()[:3] == ["reference        T1", "status           Paid", "amount           15000"]


def test_markup_is_text(configured, service):
    """Square brackets of the service are shown and not obeyed."""
    service.add(reference="T1", status="[bold]Paid[/bold]")
    assert "[bold]Paid[/bold]" in configured("get", "T1", is_terminal=True).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get"], "payclient: get needs at least one reference, or - to read them from standard input"),
        (["get", "T1", "-"], "payclient: standard input holds either all references or the key; name - once"),
        (["get", "T1", "--tiemout=5"], "payclient: unknown option --tiemout (see payclient get --help)"),
        (["get", "T1", "--timeout", "0"], "payclient: --timeout must be a number of seconds above 0, got 0.0"),
    ],
)
def test_usage(configured, arguments, message):
    """What cannot be run is said in one line, with status 2, before anything is asked."""
    result = configured(*arguments)
    assert (result.status, result.out, result.err) == (2, "", f"{message}\n")
