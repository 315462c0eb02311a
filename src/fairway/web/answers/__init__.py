"""The answers to all operations: a function for each, by its name in the contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.web.answers import requests, views
from fairway.web.asking import Asked
from fairway.web.shown import ShownCluster

Answer = Callable[[ShownCluster, Asked], Any]

ANSWERS: dict[str, Answer] = {
    **views.ANSWERS,
    **requests.ANSWERS,
}
