"""`payclient get`: rows for people, lines for programs, one exit status for all."""

import json

from payclient import ConnectionFailedError
from payclient.cli._next import after_error
from payclient.cli._process import Call, Exit
from payclient.testing import Reply, changed
from support.misses import check_each


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


TABLE = """\
reference  status    amount   fee  amount_received  payment_method  payment_code      expdate              merchant_reff
T2         Canceled    7000     0             7000  VA              ************0001  2030-01-31 23:59:59  INV-2
T1         Paid       15000  2500            12500  VA              ************0001  2030-01-31 23:59:59  INV-1
"""


def test_table(configured):
    """Without a terminal the table is aligned text in the order of the references, without empty columns."""
    result = configured("get", "T2", "T1")
    assert (result.status, result.out, result.err) == (0, TABLE, "")


def test_json(configured, service):
    """A program gets the ten fields, the payment code in full, and what was tolerated; or what failed."""
    service.script("T2", Reply(body=changed(amount=str)))
    found, odd, failed = lines(configured("get", "T1", "T2", "NOPE", "--json"))
    assert found == {
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
    }
    assert odd["deviations"] == ["amount: text '7000' read as integer"]
    service.script("T2", Reply(body=changed(amount=str)))
    assert configured("get", "T2").out.endswith("  INV-2          amount: text '7000' read as integer\n")
    assert failed == {
        "reference": "NOPE",
        "error": "TransactionNotFoundError",
        "message": "no such transaction: Transaction not found (HTTP 404)",
        "is_retryable": False,
    }


def test_every_field_is_a_column(configured, service):
    """Each field of a transaction is in the table, but for the name of the payment method, which its code says."""
    service.script("T2", Reply(body=changed(amount=str)))
    (fields,) = lines(configured("get", "T1", "--json"))
    columns = configured("get", "T2").out.splitlines()[0].split()
    assert {*columns} == fields.keys() - {"payment_name", "deviations"} | {"note"}


def test_status(configured, service):
    """The exit status of "could not ask" differs from that of "not found", and has priority."""

    def status(references):
        service.script("BUSY", *[Reply(status=500)] * 4)
        return configured("get", *references).status

    check_each({("T1", "NOPE"): 1, ("T1", " "): 1, ("T1", "BUSY"): 75, ("BUSY", "NOPE"): 75}, status)


def test_nothing_found(configured):
    """When none of the references is known, the command that checks key and environment follows."""
    result = configured("get", "NOPE", "NIX", "--environment", "sandbox")
    assert (result.status, result.following) == (1, [["doctor", "--environment", "sandbox"]])
    assert "payclient: no transaction was found: is it the key" in result.err
    assert configured("get", "NOPE", "T1").err == ""


def test_refused_key(configured, monkeypatch):
    """A refused key is reported once, in one line, with its own exit status."""
    monkeypatch.setenv("PAYCLIENT_API_KEY", "some-other-key")
    result = configured("get", "T1", "T2")
    assert (result.status, result.out, result.said) == (
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
    """A service that cannot be reached may be there later; the command that says where it fails follows."""
    nowhere = ("--base-url", "http://127.0.0.1:9")
    result = configured("get", "T1", *nowhere, "--deadline", "0.2")
    assert (result.status, "no answer" in result.out, result.following) == (75, True, [["doctor", *nowhere]])
    error = ConnectionFailedError("cannot connect", step="connect")
    assert after_error(error, Exit.AGAIN, Call("get", ("-",)), {"references": ("-",)}) == [Call("doctor")]


def test_stdin(configured):
    """With `-` each line is a reference; the table has their order, and a line that is no text costs its own row."""
    result = configured("get", "-", stdin=b"\xef\xbb\xbfT2\r\n\n  T1 \nNOPE\nT2\n")
    assert [line.split()[0] for line in result.out.splitlines()] == ["reference", "T2", "T1", "NOPE", "T2"]
    result = configured("get", "-", "--json", stdin=b"T1\n\xff\xfe\nT2\n")
    assert sorted(line.get("error", "") for line in lines(result)) == ["", "", "InvalidReferenceError"]
    result = configured("get", "-", stdin=b"")
    assert (result.status, result.out) == (0, "")


def test_fatal_after_rows(configured, service):
    """Rows that were answered before the key was refused are not lost."""
    service.script("T2", Reply(status=401), Reply(status=401))  # asked again over a fresh connection
    result = configured("get", "-", "--max-concurrency", "1", stdin=b"T1\nT2\n")
    assert (result.status, result.out.split()[-1]) == (3, "INV-1")


def test_hostile_text(configured, service, monkeypatch):
    """Escape sequences and direction marks of the service reach the terminal as plain text, also as JSON."""
    service.add(reference="T1", status="\x1b[31mPaid\u202e", merchant_reff="a\x9b2J\x7f")
    monkeypatch.setenv("TERM", "dumb")  # then none of the escape sequences would be ours
    shown = configured("get", "T1").out + configured("get", "T1", "--json").out
    shown += configured("get", "T1", "T\x1b[31m", is_terminal=True).out
    assert [character for character in shown if not character.isprintable() and character != "\n"] == []


def test_terminal(configured, service, monkeypatch):
    """On a terminal that is narrower than the table, each transaction is a block."""
    service.add(reference="T1", status="[bold]Paid[/bold]", amount=15000)
    monkeypatch.setenv("COLUMNS", "400")
    assert configured("get", "T1", is_terminal=True) == configured("get", "T1")
    monkeypatch.setenv("COLUMNS", "40")
    shown = configured("get", "T1", "NOPE", is_terminal=True).out
    told = ["reference        T1", "status           [bold]Paid[/bold]", "amount           15000"]
    assert shown.splitlines()[:3] == told
