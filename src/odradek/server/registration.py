"""A node's way into its cluster: registered as controller and as broker, then unfenced.

Each start is a new incarnation.
"""

from __future__ import annotations

from odradek.controller.brokers import Registration, register_broker, register_controller
from odradek.controller.fencing import unfence_broker
from odradek.server.active_controller import ActiveController


async def join_cluster(controller: ActiveController, registration: Registration) -> int:
    """The broker epoch.

    Partitions that this broker led get a new leader epoch: what it lost in a crash may not share one with what follows.
    """
    await controller.submit(lambda image: register_controller(image, registration))
    broker_epoch = await controller.submit(lambda image: register_broker(image, registration))
    # Replay is done by the time `submit` answers: on the controller's own node a broker has always caught up.
    await controller.submit(lambda image: unfence_broker(image, registration.broker_id, broker_epoch))
    return broker_epoch
