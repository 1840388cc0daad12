"""What the handlers of the controller listener share. Built by `node`, handed to every request's context.

It has the names of `Broker` that handlers of administrative requests use: they run on either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odradek.base.ids import BrokerId
from odradek.base.ports import Clock, Rng, Spawner
from odradek.server.loggers import Loggers

if TYPE_CHECKING:
    from odradek.metadata.configs.broker import BrokerConfig
    from odradek.metadata.image import ClusterImage
    from odradek.security.authorizer import Authorizer
    from odradek.server.controller.active_controller import ActiveController
    from odradek.server.network.request import Api, Connection, FrameApi
    from odradek.server.quorum.metadata_quorum import MetadataQuorum


@dataclass(slots=True, kw_only=True, eq=False)
class Controller:
    node_id: BrokerId
    cluster_id: str
    config: BrokerConfig
    clock: Clock
    rng: Rng
    spawner: Spawner
    authorizer: Authorizer
    # What the controller listener advertises and answers, by API key.
    apis: Mapping[int, Api | FrameApi]
    quorum: MetadataQuorum
    controller: ActiveController
    loggers: Loggers = field(default_factory=Loggers)
    # Over which connections brokers are heard: when one breaks, its broker may have died.
    _heard_over: dict[Connection, BrokerId] = field(init=False, default_factory=dict)

    def heard(self, connection: Connection, broker_id: BrokerId) -> None:
        self._heard_over[connection] = broker_id

    def lost(self, connection: Connection) -> None:
        broker_id = self._heard_over.pop(connection, None)
        if broker_id is not None:
            self.controller.suspect(broker_id)

    @property
    def image(self) -> ClusterImage:
        return self.quorum.feed.image
