"""What the controller is told of logs that failed and came back: until its image says so."""

from __future__ import annotations

from odradek.base.ids import DirectoryId
from odradek.metadata.image import LOST_DIRECTORY
from odradek.server.failed_logs import FailedLogs
from support.data_broker import BROKER_ID, DataBroker

HERE = DirectoryId(b"d" * 16)


class Controller:
    def __init__(self) -> None:
        self.told: list[tuple[bytes, int]] = []

    async def ask(self, request, response, *, timeout_ms):
        for directory in request.directories:
            self.told += [
                (directory.id, each.partition_index) for topic in directory.topics for each in topic.partitions
            ]
        return response()


async def in_turn(call, *args):
    return call(*args)


def looking(broker, controller):
    return FailedLogs(
        channel=controller,
        broker_id=BROKER_ID,
        broker_epoch=1,
        directory=HERE,
        clock=broker.clock,
        logs=broker.logs,
        partitions=broker.partitions,
        image=lambda: broker.broker.image,
        slow=in_turn,
    )


def test_a_sound_log_that_is_called_lost_by_a_late_message_is_told_of_until_the_image_knows(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2)
            controller = Controller()
            failed_logs = looking(broker, controller)
            await failed_logs.look()
            assert controller.told == []
            broker.change_partition("t", 1, directories=[LOST_DIRECTORY])
            await failed_logs.look()
            await failed_logs.look()
            assert controller.told == [(HERE, 1), (HERE, 1)]
            broker.change_partition("t", 1, directories=[HERE])
            await failed_logs.look()
            assert controller.told == [(HERE, 1), (HERE, 1)]

    run(scenario())
