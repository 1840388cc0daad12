"""A day in the shop with a TestDriver: real topics, a real Spark, and time controlled by the test."""

from __future__ import annotations

from pathlib import Path

from odradek.streams.api.loading import load_app, pickle_by_value

TEA = {"sku": "tea", "name": "Green tea", "price": 4.0, "reorder_at": 10, "reorder_quantity": 40}
SALT = {"sku": "salt", "name": "Sea salt", "price": 2.0, "reorder_at": 5, "reorder_quantity": 20}


def test_a_day_in_the_shop(odradek_test_driver):
    app = load_app(str(Path(__file__).with_name("app.py")))
    pickle_by_value(app)
    with odradek_test_driver(app) as shop:
        products, shipments, sales = (shop.input(topic) for topic in ("products", "shipments", "sales"))
        products.send(TEA, SALT, at="2026-01-05T07:00:00Z")
        shipments.send({"sku": "tea", "quantity": 30}, {"sku": "salt", "quantity": 9}, at="2026-01-05T08:00:00Z")
        sales.send({"sku": "tea", "quantity": 15}, at="2026-01-05T09:10:00Z")
        sales.send({"sku": "tea", "quantity": 6}, at="2026-01-05T09:20:00Z")
        sales.send({"sku": "tea", "quantity": 1}, {"sku": "salt", "quantity": 2}, at="2026-01-05T09:30:00Z")
        assert shop.output("reorders").read_keyed() == [
            ("tea", {"sku": "tea", "name": "Green tea", "quantity": 40, "on_hand": 9})
        ]

        # 22 teas and 2 salts sold in an hour: high demand for tea, low demand for salt.
        shop.advance_time("2026-01-05T10:02:00Z")
        adjusted = shop.output("price_adjustments").read_values()
        assert {row["sku"]: row["new_price"] for row in adjusted} == {"tea": 4.2, "salt": 1.8}
