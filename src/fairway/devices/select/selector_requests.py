"""The ways to say which devices will do: by class, by the name of a plain resource, by a claim's selectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fairway.api.devices import DeviceClass, DeviceTaint, DeviceToleration
from fairway.cel import shown
from fairway.devices.model.device import BLOCKING, Device
from fairway.devices.select.cel_eval import Purse, SelectorAnswers
from fairway.devices.select.classes import ClassTable


class ByClass(NamedTuple):
    """Devices that a ResourceClass selects."""

    class_name: str


class ByKind(NamedTuple):
    """Units of a plain resource (`nvidia.com/gpu`), of which the pod minds nothing but that it has them."""

    resource: str
    devices: bool = True
    """Whether published devices may stand for them; a claim could not name more than it can."""


class ByClaim(NamedTuple):
    """Devices of a DeviceClass that all the request's own selectors match and whose taints it tolerates."""

    device_class: str
    expressions: tuple[str, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()


DeviceSelector = ByClass | ByKind | ByClaim
_KEPT = 4096


def label(selector: DeviceSelector) -> str:
    """What a binding calls it: the class, or the plain resource."""
    match selector:
        case ByClass(name) | ByKind(name):
            return name
    return selector.device_class


class ClaimMatcher:
    """Which devices a claim means. Where there is no DeviceClass of its name, the ResourceClass is meant."""

    def __init__(
        self,
        device_classes: Mapping[str, DeviceClass],
        classes: ClassTable,
        answers: SelectorAnswers | None = None,
        *,
        waits: bool = False,
    ) -> None:
        """With `waits` an expression is evaluated where `prepare` has the means for it, and nowhere else: until then
        what uses it selects nothing.
        """
        self._device_classes = device_classes
        self._classes = classes
        self.answers = SelectorAnswers() if answers is None else answers
        self._waits = waits
        self._prepared: dict[tuple[str, ...], int] = {}
        """Expressions whose answers about all devices are known, as of which generation of devices."""
        self._asked_early: set[tuple[str, ...]] = set()
        self.early_answers = 0
        """Rises when there are answers to what was asked before there were any: what was made of that is not true."""

    def knows(self, device_class: str) -> bool:
        return device_class in self._device_classes or self._classes.get(device_class) is not None

    def prepare(self, selector: ByClaim, devices: Iterable[Device], generation: int, purse: Purse) -> bool:
        """Evaluate what a selector needs to be asked about these devices; False if that has to go on later."""
        texts = self._expressions(selector)
        if self._prepared.get(texts) == generation:
            return True
        if not self.answers.prepare(texts, devices, purse):
            return False
        if len(self._prepared) >= _KEPT:
            self._prepared.clear()
        self._prepared[texts] = generation
        if texts in self._asked_early:
            self._asked_early.discard(texts)
            self.early_answers += 1
        return True

    def may_ask(self, selector: ByClaim) -> bool:
        """`is_prepared`, by one that makes something of the answer."""
        if self.is_prepared(selector):
            return True
        if len(self._asked_early) >= _KEPT:
            self._asked_early.clear()
            self.early_answers += 1
        self._asked_early.add(self._expressions(selector))
        return False

    def is_prepared(self, selector: ByClaim) -> bool:
        """Whether it may be asked."""
        return not self._waits or self._expressions(selector) in self._prepared

    def problem(self, selector: ByClaim) -> str:
        """What keeps a selector from being understood at all; "" if nothing does."""
        if not self.is_prepared(selector):
            return ""
        return next(filter(None, map(self.answers.refusal, self._expressions(selector))), "")

    def selects(self, selector: ByClaim, device: Device, class_names: frozenset[str] | set[str]) -> bool:
        """`class_names` are the ResourceClasses that select the device. Only what a driver publishes can be claimed."""
        if (
            not device.driver
            or not device.healthy
            or not device.reachable
            or not tolerated(device.taints, selector.tolerations)
        ):
            return False
        if selector.device_class not in self._device_classes and selector.device_class not in class_names:
            return False
        return all(self.answers.answer(text, device).value is True for text in self._expressions(selector))

    def failure(self, selector: ByClaim, device: Device) -> str:
        """Why an expression gives no answer about a device, where running it was given up; else ""."""
        for text in self._askable(selector):
            answer = self.answers.answer(text, device)
            if answer.failed:
                return f"CEL expression {shown(text)} fails: {answer.error}"
            if answer.value is not True:
                return ""
        return ""

    def error(self, selector: ByClaim, device: Device) -> str:
        """What the first expression that does not hold for a device says went wrong; "" if it is simply not true."""
        for text in self._askable(selector):
            answer = self.answers.answer(text, device)
            if answer.value is not True:
                return answer.error
        return ""

    def _askable(self, selector: ByClaim) -> tuple[str, ...]:
        if not self.is_prepared(selector) or self.problem(selector):
            return ()
        return self._expressions(selector)

    def _expressions(self, selector: ByClaim) -> tuple[str, ...]:
        known = self._device_classes.get(selector.device_class)
        own = tuple(s.cel.expression for s in known.spec.selectors if s.cel) if known else ()
        return (*own, *selector.expressions)


def tolerated(taints: tuple[DeviceTaint, ...], tolerations: tuple[DeviceToleration, ...]) -> bool:
    """Whether every taint that blocks is tolerated. As for nodes: an empty key with Exists tolerates everything."""
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints if taint.effect in BLOCKING
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.key == taint.key and toleration.value == taint.value
