"""The shop of the page about payment pages with 200 orders, for `uvicorn --factory support.shop:app`."""

import runpy
from pathlib import Path

from payclient import AsyncClient

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "payment_page.py"
ORDERS = {
    str(number): {
        "reference": f"T{number:09d}SHOP",
        "merchant_reff": f"ORDER-{number}",
        "amount": 100_000 + number,
        "payment_code": f"88001234{number:08d}",
        "expdate": "2030-01-01 00:00:00",
    }
    for number in range(200)
}
MAX_RATE = 60
WORKERS = 2


def app():
    example = runpy.run_path(str(EXAMPLE))
    orders = {
        number: example["Order"](
            order["reference"], order["merchant_reff"], order["amount"], order["payment_code"], order["expdate"]
        )
        for number, order in ORDERS.items()
    }
    return example["make_app"](AsyncClient(max_rate=MAX_RATE, workers=WORKERS, deadline=5.0), orders)
