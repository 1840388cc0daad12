"""A shop: reads sales and shipments, writes reorders and price adjustments.

    odradek streams run examples/retail/app.py

The stock is the sum of shipments minus sales. When it falls to the limit of the product, one reorder is written, and
the next one only after a shipment. Prices follow the demand of the last hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from odradek.streams import App, F, State, tumbling


@dataclass
class Sale:
    sku: str
    quantity: int
    sold_at: datetime


@dataclass
class Shipment:
    sku: str
    quantity: int
    arrived_at: datetime


@dataclass
class Product:
    sku: str
    name: str
    price: float
    reorder_at: int
    reorder_quantity: int


@dataclass
class Reorder:
    sku: str
    name: str
    quantity: int
    on_hand: int


app = App("retail")

sales = app.stream("sales", schema=Sale, time="sold_at")
shipments = app.stream("shipments", schema=Shipment, time="arrived_at")
products = app.table("products", schema=Product, key="sku")

went = sales.select("sku", change="-quantity")
came = shipments.select("sku", change="quantity")
movements = went.merge(came).join(products, on="sku")


@movements.process(key="sku", out=Reorder)
def reorders(sku: str, rows: Iterator[Any], stock: State[int], on_its_way: State[bool]) -> Iterator[Reorder]:
    for row in rows:
        stock.value = (stock.value or 0) + row.change
        if row.change > 0:
            on_its_way.value = False
        elif stock.value <= row.reorder_at and not on_its_way.value:
            on_its_way.value = True
            yield Reorder(sku, row.name, row.reorder_quantity, stock.value)


reorders.to("reorders", key="sku")

demand = sales.group_by("sku").window(tumbling("1 hour", grace="1 minute")).agg(sold=F.sum("quantity"))
prices = (
    demand[(demand.sold >= 20) | (demand.sold <= 2)]
    .join(products, on="sku")
    .select("sku", "sold", old_price="price", new_price="round(price * if(sold >= 20, 1.05, 0.90), 2)")
)
prices.to("price_adjustments", key="sku")

if __name__ == "__main__":
    app.run()
