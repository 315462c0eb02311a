"""Devices: what they are, what classes ask of them, and which class selects which. Pure."""

from fairway.devices.device import CounterUse, Device, DeviceId
from fairway.devices.selectors import Matcher, MatchResult, compile_selector

__all__ = ["CounterUse", "Device", "DeviceId", "MatchResult", "Matcher", "compile_selector"]
