"""What a worker is told: plain data, checked when it is made, and no secret in it."""

import importlib
import json
import pickle
import sys

import pytest

from payclient import ConfigurationError, Environment, RetryPolicy
from payclient.engines import LookupSpec, ReconcileSpec
from payclient.engines._spec import key_of, rules_of
from payclient.reconcile import Lines, Rules
from payclient.reconcile.ledger import Dialect
from support.fakes import KEY
from support.ruling import SOME_RULES

URL = "https://pay.example"
SPECS = [
    LookupSpec(base_url=URL),
    LookupSpec(base_url=URL, keep=["a", "b"], retry=RetryPolicy(max_attempts=2), key_file="/run/secrets/pay"),
    LookupSpec(base_url=URL, transport="fast", network={"proxy": "http://proxy:3128", "trust_env": False}),
    ReconcileSpec(base_url=URL, rules=SOME_RULES, canary="T1"),
]


def test_pickle():
    """What arrives in a worker equals what was sent, and has the same hash; rules arrive as they were given."""
    for spec in SPECS:
        arrived = pickle.loads(pickle.dumps(spec))
        assert (arrived, hash(arrived)) == (spec, hash(spec))
    for rules in (SOME_RULES, Rules()):
        spec = ReconcileSpec(base_url=URL, rules=rules)
        assert (rules_of(spec), ReconcileSpec(base_url=URL, rules=spec.rules)) == (rules, spec)


def test_no_secret(monkeypatch):
    """Neither the text nor the pickle of a specification holds the key that its maker has."""
    monkeypatch.setenv("PAYCLIENT_API_KEY", KEY)
    spec = ReconcileSpec(base_url=URL)
    assert (KEY in repr(spec), KEY.encode() in pickle.dumps(spec)) == (False, False)


def test_environment(monkeypatch):
    """What is not given comes from the environment of the process that makes it."""
    monkeypatch.setenv("PAYCLIENT_BASE_URL", URL + "/")
    monkeypatch.setenv("PAYCLIENT_ENVIRONMENT", "sandbox")
    monkeypatch.setenv("PAYCLIENT_TRANSPORT", "fast")
    spec = LookupSpec()
    assert (spec.base_url, spec.environment, spec.transport) == (URL, Environment.SANDBOX, "fast")


def test_refused(subtests):
    """What a worker has beside the options of a client is checked where it is made, and not in a thousand workers."""
    for options, message in [
        ({"reference": ""}, "reference must be the name of a column"),
        ({"keep": "amount"}, "keep must be several different names"),
        ({"keep": ["a", "a"]}, "keep must be several different names"),
        ({"prefix": None}, "prefix must be text"),
        ({"network": {"proxy": "http://clerk:of-mine@proxy"}}, "network must not contain a password: workers take"),
        (
            {"network": {"ssl_context": object()}},
            "network may only have options of AsyncClient that are text, numbers, True or",
        ),
        ({"stall_timeout": 0}, "stall_timeout must be a number of seconds above 0"),
        ({"window": True}, "window must be an integer of at least 1"),
        ({"canary": " "}, "canary must be a reference"),
        ({"rules": "{"}, "rules must be Rules, or the JSON of rules_as_json"),
        ({"rules": 5}, "rules must be Rules, or the JSON of rules_as_json"),
        ({"rules": json.dumps({"grace": "soon"})}, "grace must be"),
        ({"rules": Rules(lines=Lines(of_one_reference="sum"))}, "rules must not sum lines: an engine judges each row"),
        # An engine leaves no row out, so rules that declare it are not overlooked.
        *(
            ({"rules": Rules(ledger=Dialect(**{name: value}))}, f"must not declare {name}")
            for name, value in (("only_currency", "IDR"), ("skip_totals", True), ("debit_columns", {"amount": "Debit"}))
        ),
    ]:
        with subtests.test(options=options):
            with pytest.raises(ConfigurationError, match=message):
                ReconcileSpec(**{"base_url": URL, **options})
    with pytest.raises(ConfigurationError, match="business days need time_zone"):
        rules_of(ReconcileSpec(base_url=URL, rules=Rules(grace="1 business day")))


def test_key_in_the_wrong_place():
    """A key that is taken for the name of its variable is refused, and not shown."""
    with pytest.raises(ConfigurationError) as caught:
        LookupSpec(base_url=URL, key_variable=KEY)
    assert KEY not in str(caught.value)


def test_key(monkeypatch, tmp_path):
    """The key is read in the worker: from the file, or else the variable; a worker without one says where it looked."""
    path = tmp_path / "key"
    path.write_text("a-key-in-a-file")
    monkeypatch.setenv("PAY_KEY", KEY)
    assert key_of(LookupSpec(base_url=URL, key_variable="PAY_KEY")) == KEY
    assert key_of(LookupSpec(base_url=URL, key_variable="PAY_KEY", key_file=path)) == "a-key-in-a-file"
    monkeypatch.delenv("PAYCLIENT_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="lacks the environment variable PAYCLIENT_API_KEY"):
        key_of(LookupSpec(base_url=URL))
    with pytest.raises(ConfigurationError, match="cannot read the file"):
        key_of(LookupSpec(base_url=URL, key_file=tmp_path / "none"))


@pytest.mark.parametrize(
    ("module", "needed", "message"),
    [
        ("spark", "pyspark", "payclient.engines.spark needs PySpark: pip install 'payclient[spark]'"),
        ("ray", "ray", "payclient.engines.ray needs Ray Data: pip install 'payclient[ray]'"),
    ],
)
def test_missing(monkeypatch, module, needed, message):
    """A missing library is reported with the extra that installs it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == needed]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"payclient.engines.{module}", raising=False)
    monkeypatch.setitem(sys.modules, needed, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(f"payclient.engines.{module}")
    assert str(caught.value) == message
