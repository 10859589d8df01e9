"""The payment page of the documentation, played in a real browser."""

import asyncio
import runpy
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from payclient import AsyncClient
from payclient.testing import FakeService, serve
from support.in_thread import InThread

EXAMPLE = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "docs" / "examples" / "payment_page.py")))
WAITING, PAID, OVER, CHECKING = EXAMPLE.WORDS.values()

pytestmark = pytest.mark.browser
PHONE = {"width": 390, "height": 640}


class Shop(InThread):
    """The application and its service, in the event loop of another thread."""

    @asynccontextmanager
    async def served(self):
        self._loop = asyncio.get_running_loop()
        self.service = FakeService()
        made = self.service.add(
            reference="T1", status="Pending", amount=150_000, becomes=[(30, "Paid")], payment_code="8800123456789012"
        )
        late = self.service.add(reference="T2", status="Pending", amount=75_000, becomes=[(30, "Expired")])
        less = self.service.add(reference="T3", status="Pending", amount=149_000, becomes=[(30, "Paid")])
        orders = {
            number: EXAMPLE.Order(one["reference"], one["merchant_reff"], amount, one["payment_code"], one["expdate"])
            for number, one, amount in (("1", made, 150_000), ("2", late, 75_000), ("3", less, 150_000))
        }
        async with serve(self.service) as service_url:
            self.pay = AsyncClient(api_key=self.service.api_key, base_url=service_url, retry=None)
            app = EXAMPLE.make_app(self.pay, orders, seconds=600.0, interval=0.05)
            async with app.router.lifespan_context(app), serve(app) as self.url:
                yield

    def do(self, function, *arguments):
        """Call a function in the event loop of the application, and return what it returns."""

        async def call():
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(60)


@pytest.fixture
def shop():
    with Shop() as running:
        yield running


def says(page, words):
    page.wait_for_function("words => document.getElementById('words').textContent === words", arg=words)


@pytest.mark.parametrize(("number", "words"), [("1", PAID), ("2", OVER), ("3", CHECKING)])
def test_turns_by_itself(shop, visit, number, words):
    """While it is watched the page turns to paid, expired or being checked, without being loaded again."""
    page = visit(f"{shop.url}/pay/{number}", **PHONE)
    says(page, WAITING)
    page.evaluate("window.isTheSame = true")
    shop.do(shop.service.advance, 30)
    says(page, words)
    assert (page.evaluate("window.isTheSame"), page.complaints) == (True, [])


def test_without_script(shop, visit):
    """Without JavaScript the page shows what to pay and until when, and is right whenever it is loaded again."""
    page = visit(f"{shop.url}/pay/1", java_script_enabled=False)
    shown = page.locator("dl").inner_text()
    assert [text for text in ("150,000", "8800123456789012", "2030-01-31 23:59:59") if text not in shown] == []
    assert page.locator("#words").inner_text() == WAITING
    shop.do(shop.service.advance, 30)
    page.reload()
    assert page.locator("#words").inner_text() == PAID


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_fits(shop, visit, scheme, width):
    """The page needs no horizontal scrolling, on a phone or a screen, by day or by night."""
    page = visit(f"{shop.url}/pay/1", width=width, height=640, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_picture(shop, visit, screenshots):
    """Take the pictures of the documentation: the page while it waits, and when it was paid."""
    page = visit(f"{shop.url}/pay/1", width=480, height=420, color_scheme="light")
    says(page, WAITING)
    page.screenshot(path=screenshots / "payment-waiting.png")
    shop.do(shop.service.advance, 30)
    says(page, PAID)
    page.screenshot(path=screenshots / "payment-paid.png")
    assert page.complaints == []
