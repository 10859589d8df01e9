"""
Look for bytes that make the parser do anything but what it promises: `python -m fuzz [SECONDS] [--keep]`.

An input is a status, the name of a content coding, and a body. It must give a transaction that is the one asked
for, or a `ResponseError` that can be pickled and does not show the key. It starts from `tests/fuzz/corpus`; with
`--keep`, what widens the coverage is added there. An input that fails is written beside that folder and printed.
"""

import pickle
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["payclient"]):
    from payclient.errors import ResponseError
    from payclient.protocol import _wire
    from payclient.protocol._models import Response
    from payclient.protocol._secret import ApiKey

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 600
SECRET = "sk-canary-7f3a9c51d2e84b60"
KEY = ApiKey(SECRET)
STATUSES = (200, 201, 204, 302, 400, 401, 403, 404, 422, 429, 500, 503)
CODINGS = ("", "identity", "gzip", "gzip, gzip", "br")


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


def options(words):
    """Return what libFuzzer is to be told: for how long, from what, and where to put what it finds."""
    seconds = [word for word in words if word != "--keep"] or [SECONDS]
    seeds = ",".join(map(str, sorted(CORPUS.iterdir())))  # named one by one, they are read and nothing is written
    source = [str(CORPUS)] if "--keep" in words else [f"-seed_inputs={seeds}"]
    limits = [f"-max_total_time={seconds[0]}", "-timeout=60", "-max_len=8192", "-print_final_stats=1"]
    return [*limits, f"-artifact_prefix={CORPUS.parent}/", *source]


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *options(sys.argv[1:])], check)
    atheris.Fuzz()
