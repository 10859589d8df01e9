"""
Look for bytes that make the parser do anything but what it promises: `python -m fuzz [SECONDS]`.

An input is a status, the name of a content coding, and a body. It must give a transaction that is the one asked
for, or a `ResponseError` that can be pickled and does not show the key. What widens the coverage is added to
`tests/fuzz/corpus`; an input that fails is written beside it and printed.
"""

import pickle
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["payclient"]):
    from payclient import _wire
    from payclient._http import Response
    from payclient._secret import ApiKey
    from payclient.errors import ResponseError

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 600
SECRET = "sk-canary-7f3a9c51d2e84b60"
KEY = ApiKey(SECRET)
STATUSES = (200, 201, 204, 302, 400, 401, 403, 404, 422, 429, 500, 503)
CODINGS = ("", "identity", "gzip", "deflate", "gzip, gzip", "br")


def check(data):
    if len(data) < 2:
        return
    status, coding = STATUSES[data[0] % len(STATUSES)], CODINGS[data[1] % len(CODINGS)]
    headers = {
        "content-type": "application/json",
        "content-encoding": coding,
        "retry-after": data[2:12].decode("latin-1"),
    }
    try:
        transaction = _wire.parse_response(Response(status, headers, data[2:]), "T1", redact=KEY.redact)
    except ResponseError as error:
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), str(error))
        assert SECRET not in f"{error}{vars(error)}"
    else:
        assert (transaction.reference, type(transaction.amount), status) == ("T1", int, 200)


if __name__ == "__main__":
    seconds = sys.argv[1] if len(sys.argv) > 1 else SECONDS
    options = [f"-max_total_time={seconds}", "-timeout=5", "-max_len=8192", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={CORPUS.parent}/", str(CORPUS)], check)
    atheris.Fuzz()
