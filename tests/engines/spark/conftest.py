"""One Spark for all of its tests: two tasks at a time, four attempts each, Python workers that outlive their tasks."""

import pytest

from payclient.testing import FakeService


@pytest.fixture(scope="session")
def session():
    from engines.spark.driver import start  # noqa: PLC0415  only the session spark installs it

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAYCLIENT_API_KEY", FakeService().api_key)  # workers inherit it from the JVM, and that from here
        session = start()
        yield session
        session.stop()
