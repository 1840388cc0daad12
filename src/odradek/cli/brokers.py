"""What `odradek cluster health` asks each broker: whether it answers, and the state of its disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from odradek.cli.asking import CLIENT_ID
from odradek.client.addresses import Address
from odradek.client.wire import NoAnswer, Unsupported, Wire
from odradek.console.collecting.figures import log_dir
from odradek.console.collecting.snapshot import LogDir
from odradek.protocol.messages.p35_describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.messages.p60_describe_cluster import DescribeClusterBroker

ANSWER_S = 5.0
AT_ONCE_MAX = 32


def directories(brokers: Iterable[DescribeClusterBroker]) -> Mapping[int, Sequence[LogDir] | None]:
    """By broker, None if it does not answer. Asks several at once, because a silent one takes until the timeout."""
    wanted = list(brokers)
    with ThreadPoolExecutor(min(len(wanted), AT_ONCE_MAX) or 1) as asking:
        return {broker.broker_id: found for broker, found in zip(wanted, asking.map(_asked, wanted), strict=True)}


def _asked(broker: DescribeClusterBroker) -> Sequence[LogDir] | None:
    wire = Wire(Address(broker.host, broker.port), CLIENT_ID, within_s=ANSWER_S)
    try:
        answer = wire.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    except Unsupported:
        return ()
    except NoAnswer:
        return None
    finally:
        wire.close()
    return [log_dir(result) for result in answer.results]
