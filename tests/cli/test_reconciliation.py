"""What `reconcile` and `demo` have in common, on virtual time."""

import io

import httpx
import pytest

from payclient import AsyncClient
from payclient.cli._connection import ConnectionOptions
from payclient.cli._process import Streams
from payclient.cli._reconcile import Reconciliation
from payclient.reconcile import Verdict
from payclient.reconcile._judgement.sides import utc_now
from payclient.reconcile.ledger import open_ledger
from payclient.testing import FakeService, Latency, Reply


@pytest.fixture
def carry_out(tmp_path):
    """Reconcile two rows with a service, by a client with these options."""

    async def carry_out(service, clock=utc_now, **options):
        streams = Streams(stdin=io.BytesIO(), stdout=io.StringIO(), stderr=io.StringIO())
        client = AsyncClient(
            api_key=service.api_key,
            base_url="http://127.0.0.1",
            http_client=httpx.AsyncClient(transport=httpx.ASGITransport(app=service)),
            **options,
        )
        with open_ledger(io.StringIO("reference\nT1\nT2\n")) as ledger:
            one = ConnectionOptions(max_concurrency=1)
            job = Reconciliation(
                ledger=ledger, out=tmp_path, client=client, connection=one, streams=streams, clock=clock
            )
            summary = (await job.run()).summary
        return summary.verdict, streams.stderr.getvalue()

    return carry_out


def service_of(**options):
    service = FakeService(**options)
    service.load([{"reference": "T1", "status": "Paid"}, {"reference": "T2", "status": "Paid"}])
    return service


@pytest.mark.virtual_time
async def test_no_deadline(carry_out):
    """A row may take longer than the deadline of a single lookup: its turn comes when it comes."""
    verdict, _ = await carry_out(service_of(latency=Latency(seconds=60)), timeout=90)
    assert verdict is Verdict.PARTIAL


@pytest.mark.virtual_time
async def test_pause_is_shown(carry_out):
    """A pause that the service asked for shows while it lasts, and is waited out."""
    service = service_of()
    service.script("T2", Reply(status=429, headers={"retry-after": "45"}))
    verdict, told = await carry_out(service)
    assert (verdict, "asking 1/2; paused 35 s by the service" in told) == (Verdict.PARTIAL, True)


@pytest.mark.virtual_time
async def test_ended_early(carry_out, tmp_path):
    """A run that ends early for a reason that may pass leaves an incomplete report and says why it ended."""
    service = service_of()
    for reference in ("T1", "T2"):
        service.script(reference, *[Reply(status=429, headers={"retry-after": "86400"})] * 20)
    verdict, told = await carry_out(service)
    assert (verdict, (tmp_path / "summary.json").exists(), "the run ended early" in told) == (
        Verdict.INCOMPLETE,
        True,
        True,
    )
