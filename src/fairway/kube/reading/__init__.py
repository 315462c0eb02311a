"""Lists and watches: from bytes to objects for the loop's store (spec K1 to K4)."""

from fairway.kube.reading.decoding import Sharing, UnreadableObject
from fairway.kube.reading.feed import Feed
from fairway.kube.reading.reflector import Delivery, Gone, ReadObserver, Reflector
from fairway.kube.reading.served import find_served, serves_class_claims, version_path
from fairway.kube.reading.whole_cluster import ALL_KINDS, read_cluster

__all__ = [
    "ALL_KINDS",
    "Delivery",
    "Feed",
    "Gone",
    "ReadObserver",
    "Reflector",
    "Sharing",
    "UnreadableObject",
    "find_served",
    "read_cluster",
    "serves_class_claims",
    "version_path",
]
