"""One Spark for all of its tests: two tasks at a time, four attempts each, Python workers that outlive their tasks."""

from __future__ import annotations

import os
import sys
import warnings

import pytest

from payclient.testing import FakeService

CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.setCommandRejectsSparkCoreConfs": "false",  # so that a test can turn speculation on
}


@pytest.fixture(scope="session")
def session():
    from pyspark.sql import SparkSession  # noqa: PLC0415  only the session spark installs it

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PAYCLIENT_API_KEY", FakeService().api_key)  # workers inherit it from the JVM, and that from here
        patch.delenv("PAYCLIENT_BASE_URL", raising=False)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        builder = SparkSession.builder.master("local[2,4]")
        for name, value in CONF.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
