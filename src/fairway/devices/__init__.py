"""Devices: what they are, and which class selects which. Pure."""

from fairway.devices.model.device import CounterUse, Device, DeviceId
from fairway.devices.select.selectors import Matcher, MatchResult, compile_selector

__all__ = ["CounterUse", "Device", "DeviceId", "MatchResult", "Matcher", "compile_selector"]
