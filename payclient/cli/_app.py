"""The table of commands."""

from __future__ import annotations

from importlib.metadata import version

from cyclopts import App

from payclient.cli import _completion, _demo, _explain, _get, _lookup, _reconcile, _report, _sandbox, _verify


def _version() -> str:
    return f"payclient {version('payclient')}"


app = App(
    name="payclient",
    help="Ask the payment service what it knows, one transaction or a whole ledger.",
    version=_version,
    help_epilogue=(
        "The service is named by `PAYCLIENT_BASE_URL` and `PAYCLIENT_ENVIRONMENT`, or by the options of a command; "
        "the key by `PAYCLIENT_API_KEY` or a file, and never by an argument, which other users of the machine can "
        "read. Try `payclient get --help`."
    ),
)
app.command(_get.get, help_epilogue=_get.EXAMPLES)
app.command(_lookup.lookup, help_epilogue=_lookup.EXAMPLES)
app.command(_reconcile.reconcile, help_epilogue=_reconcile.EXAMPLES)
app.command(_report.report, help_epilogue=_report.EXAMPLES)
app.command(_explain.explain, help_epilogue=_explain.EXAMPLES)
app.command(_verify.verify, help_epilogue=_verify.EXAMPLES)
app.command(_completion.completion, help_epilogue=_completion.EXAMPLES)
app.command(_sandbox.sandbox, help_epilogue=_sandbox.EXAMPLES)
app.command(_demo.demo, help_epilogue=_demo.EXAMPLES)
