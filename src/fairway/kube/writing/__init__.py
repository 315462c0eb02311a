"""How writes leave: which is next, how many at once, and the world that carries out plans with them."""

from fairway.kube.writing.loop_thread import Courier, LoopThread, Stall
from fairway.kube.writing.outbox import Outbox
from fairway.kube.writing.world import KubeWorld, Versions
from fairway.kube.writing.write_queue import QueuedWrite, WriteQueue, WriteRank

__all__ = [
    "Courier",
    "KubeWorld",
    "LoopThread",
    "Outbox",
    "QueuedWrite",
    "Stall",
    "Versions",
    "WriteQueue",
    "WriteRank",
]
