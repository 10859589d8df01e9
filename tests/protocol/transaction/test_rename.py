"""A field of `Transaction` gets another name in one place: each reader of names has the service's own."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import payclient

PACKAGE = Path(payclient.__file__).parent
STORED = json.loads(Path(__file__).parents[1].joinpath("pickles.json").read_text(encoding="utf-8"))
PROGRAM = """
import base64, json, pickle, sys
from pathlib import Path
from payclient.cli._main import main
from payclient.protocol import Response, Transaction, parse_response
from payclient.testing import envelope

for sent, shown in (("0088", "****"), (88, "**")):
    body = json.dumps(envelope(reference="T1", payment_code=sent)).encode()
    found = parse_response(Response(200, {}, body), "T1")
    assert found.code_to_pay == str(sent), found
    assert found.as_json()["payment_code"] == shown, found.as_json()
    assert Transaction.from_json(found.as_json(with_payment_code=True)) == found
    assert pickle.loads(pickle.dumps(found)) == found
stored = pickle.loads(base64.b64decode(sys.argv[1]))
assert (stored.code_to_pay, stored.merchant_reff) == ("8800000000000001", "INV-1"), stored

assert main(["demo", "--rows", "30", "--out", "demo"]) == 0
rows = [json.loads(line) for line in Path("demo/report/rows.jsonl").read_text().splitlines()]
reference = next(row["reference"] for row in rows if "payment_code_differs" in str(row["findings"]))
assert main(["explain", "demo/report", reference]) == 0
"""


def test_rename(tmp_path):
    """After a rename, answers, pickles of the version before, a journal and a report have what they had."""
    shutil.copytree(PACKAGE, tmp_path / "payclient", ignore=shutil.ignore_patterns("__pycache__"))
    model = tmp_path / "payclient" / "protocol" / "transaction" / "_model.py"
    text = model.read_text(encoding="utf-8")
    renamed = text.replace(
        "    payment_code: str | None = field(", '    code_to_pay: str | None = field(alias="payment_code", '
    ).replace("self.payment_code", "self.code_to_pay")
    assert renamed.count("code_to_pay") > 1
    model.write_text(renamed, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, STORED["0.1.0"]["transaction"]],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.partition("second lookup")[2]
    assert re.search(r"^ +payment_code +\*+\d{4} +\*+\d{4} +\*+\d{4}$", shown, re.MULTILINE), done.stdout
