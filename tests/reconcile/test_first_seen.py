"""What the service shows for the first time: counted once for each payment, remembered from run to run."""

from payclient import errors
from payclient.reconcile._judgement.records import Shown
from payclient.reconcile.ledger import Entry, UnusedColumn
from payclient.reconcile.report.wording import in_words
from support.nights import paid
from support.reports import summary_of


def seen(night):
    return [(each.kind.value, each.value, each.rows, each.amount) for each in night.summary.first_seen]


LEDGER = [Entry(line=line, reference=each, amount=9, status="Paid") for line, each in enumerate("ABCDE", 2)]
USUAL = {each: paid(each, payment_method="VA") for each in "ABCDE"}


async def test_first_seen(night, tmp_path):
    """Words, deviations, errors and transitions are named in the first run that has them, and in no later one."""
    first = await night(LEDGER, USUAL)
    quiet = await night(LEDGER, USUAL, previous=first)
    assert (seen(first), seen(quiet)) == ([], [])
    odd = {
        "A": paid("A", status="Pending", payment_method="VA"),
        "B": paid("B", status="Pending", payment_method="QR"),
        "C": paid("C", payment_method="VA", deviations=("fee: null read as nothing",)),
        "D": errors.PermissionDeniedError("no"),
    }
    third = await night(LEDGER, USUAL | odd, previous=quiet, name="third")
    assert seen(third) == [
        ("status", "Pending", 2, 18),
        ("method", "QR", 1, 9),
        ("deviation", "fee: null read as nothing", 1, 9),
        ("error", "PermissionDeniedError", 1, 9),
        ("transition", "paid → pending", 2, 18),
    ]
    assert in_words(third.summary.first_seen[0]) == "status 'Pending': 2 rows, 18"
    written = summary_of(tmp_path / "third")
    assert [(each["kind"], each["value"]) for each in written["first_seen"]] == [each[:2] for each in seen(third)]
    fourth = await night(LEDGER, USUAL, previous=third)
    assert seen(fourth) == [("transition", "pending → paid", 2, 18)]
    assert seen(await night(LEDGER, USUAL | odd, previous=fourth)) == []


async def test_matched_states(night):
    """A transition is seen of any row that is listed in both runs, of a state without a known meaning too."""
    ledger = [Entry(line=2, reference="A", amount=9, status="Canceled")]
    before = await night(ledger, {"A": paid("A", status="Canceled")})
    after = await night(ledger, {"A": paid("A", status="{Odd}")}, previous=before)
    assert ("transition", "canceled → {Odd}", 1, 9) in seen(after)
    again = await night(ledger, {"A": paid("A", status="Canceled")}, previous=after)
    assert seen(again) == [("transition", "{Odd} → canceled", 1, 9)]


async def test_once(night):
    """A payment counts once, however many rows list it."""
    first = await night(LEDGER, USUAL)
    rows = [*LEDGER, Entry(line=9, reference="A", amount=9, status="Paid")]
    done = await night(rows, USUAL | {"A": paid("A", payment_method="QR")}, previous=first)
    assert seen(done) == [("method", "QR", 1, 9)]


def test_bounded():
    """What is remembered does not grow for ever; when it is full, nothing is called the first."""
    full = {"status": tuple(f"word {number:04}" for number in range(1_000))}
    assert (len(Shown().known(full)["status"]), list(Shown().first(full))) == (1_000, [])


def first_words(*nights, known=None):
    """Return the words that each night shows first: columns by name, with the rows of each word."""
    before = {} if known is None else {"word": known}
    for columns in nights:
        shown = Shown()
        shown.set_words([UnusedColumn(name, words) for name, words in columns.items()])
        yield [each.value for each in shown.first(before)]
        before = shown.known(before)


def test_words():
    """A word in a column that is not used is first seen once in a chain; names, which never end, are not."""
    charges, lost = {"Type": {"charge": 40}}, {"Type": {"charge": 38, "lost": 2}}
    assert list(first_words(charges, lost, charges, lost, known=())) == [["Type: charge"], ["Type: lost"], [], []]
    zeros, few, many = ({"back": dict.fromkeys(map(str, range(number)), 9)} for number in (1, 2, 30))
    assert list(first_words(zeros, few, many, {"back": {}}, known=())) == [
        ["back: 0"],
        ["back: 1"],
        ["back: (many values)"],
        [],
    ]
    assert list(first_words(charges)) == [[]]  # a run of an earlier version, which kept no words
    names = [{"Who": {f"{number}-{place}": 1 for place in range(7)}} for number in range(5)]
    assert list(map(len, first_words(*names, known=()))) == [7, 7, 7, 0, 0]
