"""What the handlers of the controller listener share. Built by `node`, handed to every request's context.

It has the names of `Broker` that handlers of administrative requests use: they run on either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.base.ids import BrokerId
from odradek.base.ports import Clock, Rng, Spawner

if TYPE_CHECKING:
    from odradek.metadata.configs.broker import BrokerConfig
    from odradek.metadata.image import ClusterImage
    from odradek.security.authorizer import Authorizer
    from odradek.server.active_controller import ActiveController
    from odradek.server.metadata_quorum import MetadataQuorum
    from odradek.server.request import Api, FrameApi


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

    @property
    def image(self) -> ClusterImage:
        return self.quorum.feed.image
