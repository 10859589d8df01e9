"""A German Excel file, from the first refusal to a signed report by pasting what is proposed."""

import shlex

from support.workbooks import by_xlsxwriter

HEADER = ("Buchungsdatum", "Zahlungsreferenz", "Betrag brutto", "Gebühr", "Auszahlung", "Status")
DECISIONS = {
    "write the [statuses] lines": '[statuses]\n"bezahlt" = "paid"\n"storniert" = "canceled"\n[columns]\n',
    "decide about each column": '[columns]\namount_received = "Auszahlung"\n',
}
"""What a person writes into the rules file before a command is pasted."""
COMMANDS = [
    "reconcile zahlungen.xlsx --out report",
    (
        "ledger zahlungen.xlsx --header-row 4 --column reference=Zahlungsreferenz --column 'amount=Betrag brutto' "
        "--save-rules rules.toml"
    ),
    "ledger zahlungen.xlsx --rules rules.toml --skip-totals --save-rules rules-2.toml",
    "reconcile zahlungen.xlsx --out report --rules rules-2.toml",
]
REFUSAL = (
    "payclient: row 1 cannot be used as the header, and row 4 looks like it; "
    "then no column is called reference: the columns are 'Buchungsdatum', 'Zahlungsreferenz', 'Betrag brutto', "
    "'Gebühr', 'Auszahlung', 'Status'; then the column 'Betrag brutto' looks like money and is not used (and so is "
    "'Auszahlung'): the amount is what the customer paid; --ignore-column NAME leaves a column out\n"
)


def german(amount):
    return f"{amount:,},00".replace(",", ".", 1)


def test_five_commands(configured, service, tmp_path, monkeypatch):
    """Four commands lead to a clean report, the fifth signs it; nothing is left out that no command or person names."""
    monkeypatch.chdir(tmp_path)
    amounts = {f"RE-2611-{number:04}": 15_000 + 1_237 * number for number in range(1, 13)}
    rows = []
    for day, (reference, amount) in enumerate(amounts.items(), 9):
        word, status = ("storniert", "Canceled") if day == 13 else ("bezahlt", "Paid")
        service.add(reference=reference, amount=amount, fee=7, amount_received=amount - 7, status=status)
        rows.append((f"{day:02}.11.2026", reference, german(amount), "7,00", german(amount - 7), word))
    above = (("Zahlungen November 2026",), ("Erstellt am 01.12.2026",), ())
    below = ("", "Summe", german(sum(amounts.values())), "", "", "")
    (tmp_path / "zahlungen.xlsx").write_bytes(by_xlsxwriter(*above, HEADER, *rows, below))
    pasted, said, call = [], [], shlex.split(COMMANDS[0])
    while call and len(pasted) < len(COMMANDS):
        result = configured(*call)
        pasted.append(shlex.join(call))
        said += [result.said] * (result.status == 2)
        has_note, call = result.steps[0] if result.following else (False, None)
        if has_note:
            note = next(text for first, text in DECISIONS.items() if f"Next: {first}" in result.out)
            rules = tmp_path / call[call.index("--rules") + 1]
            rules.write_text(rules.read_text().replace("[columns]\n", note))
    assert said == [REFUSAL]
    assert (pasted, result.status, result.out.split(":")[0]) == (COMMANDS, 0, "CLEAN")
    assert configured("sign", "report", "--prepared", "Ana").status == 0
