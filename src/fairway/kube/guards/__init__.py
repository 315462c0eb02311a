"""Repairs of decisions that were carried out in part: gangs, claims, devices, budgets (spec K8, K14)."""

from fairway.kube.guards.devices import ClaimGuard, DeviceCheck, DeviceConflictWriter
from fairway.kube.guards.gangs import GangGuard
from fairway.kube.guards.refusals import hold_budgets, reservation_problem, withdrawals
from fairway.kube.guards.volume_waits import VolumeWaits

__all__ = [
    "ClaimGuard",
    "DeviceCheck",
    "DeviceConflictWriter",
    "GangGuard",
    "VolumeWaits",
    "hold_budgets",
    "reservation_problem",
    "withdrawals",
]
