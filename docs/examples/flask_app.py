"""A Flask application whose threads share one client per process: `gunicorn -k gthread flask_app:app`."""

import atexit
import logging
from functools import cache

from flask import Flask
from flask.typing import ResponseReturnValue

from payclient import PayClientError
from payclient.blocking import Client

app = Flask(__name__)


@cache
def pay() -> Client:
    """Create the client for the first visitor, and so after the fork of `gunicorn --preload`."""
    made = Client(deadline=5.0)
    atexit.register(made.close)
    return made


@app.get("/payments/<reference>")
def payment(reference: str) -> ResponseReturnValue:
    return pay().get_transaction(reference).as_json()


@app.errorhandler(PayClientError)
def no_answer(error: PayClientError) -> ResponseReturnValue:
    if error.http_status == 500:  # a mistake of the application, such as a forgotten variable
        raise error
    if error.http_status == 503 and error.is_first:  # False for each visitor that a known outage refuses
        logging.getLogger(__name__).error("could not ask: %s: %s", type(error).__name__, error)
    return {"detail": error.detail}, error.http_status, error.http_headers
