"""CEL selectors of claims and DeviceClasses on devices.

An expression sees `device.driver`, `device.attributes`, `device.capacity` and `device.allowMultipleAllocations`, as in
Kubernetes. A domain that a device does not have is an empty map there. Versions and quantities are values of their own.
An expression that fails on a device does not select it.

Each text is compiled once and evaluated once for all devices that agree in what it reads. Anyone who may create a claim
may write one that costs as much as an evaluation may, and another one every second. So `prepare` evaluates for as much
as its purse has, keeps what is not finished, and goes on with that in a later cycle. Whatever was made in the cycle of
one moment is charged again when that moment is decided again: so the same input gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from fairway.cel import Environment, Evaluation, Program
from fairway.cel.kubernetes import CelQuantity, version_of
from fairway.cel.program import Partial
from fairway.cel.tree import Path, ValueOf
from fairway.cel.values import DefaultMap, EvaluationError, Failed
from fairway.clock import Micros
from fairway.devices.model.device import Device
from fairway.devices.model.values import Flag, Many, Number, Unreadable, Value, Version
from fairway.errors import InputError
from fairway.state.derived import DerivedValue

ENVIRONMENT = Environment(
    {
        "device.driver": "string",
        "device.attributes": "map<map<dyn>>",
        "device.capacity": "map<map<Quantity>>",
        "device.allowMultipleAllocations": "bool",
    },
    extra=["includes"],
    probe={
        "device.driver": "",
        "device.attributes": DefaultMap(),
        "device.capacity": DefaultMap(),
        "device.allowMultipleAllocations": False,
    },
)
_KEPT_DEVICES = 8192
_KEPT_TEXTS = 4096
_KEPT_ANSWERS = 8192
"""For one expression."""
QUICK = 1000
"""Steps after which an evaluation is restarted in an interruptible way; most selectors take about ten."""
COMPILING = 500
PER_CHARACTER = 2
"""The cost of compiling an expression, in steps that take as long."""
EVALUATING = 3
"""The fixed cost of an evaluation, besides its steps."""
Document = Callable[[], Mapping[str, Any]]


class Purse(Protocol):
    """What a namespace may still spend in the cycle at `now`."""

    @property
    def now(self) -> Micros: ...

    @property
    def left(self) -> int: ...

    def spend(self, units: int) -> None: ...


@lru_cache(maxsize=_KEPT_TEXTS)
def _compiled(text: str) -> Program | str:
    """The program, or the error: finding out that a text does not compile takes as long as compiling it."""
    try:
        return ENVIRONMENT.program(text, probes=False)
    except InputError as error:
        return str(error)


class _Charge(NamedTuple):
    """The cost that was charged, and the cycle that was charged."""

    at: Micros
    units: int


_LONG_AGO = _Charge(-(1 << 62), 0)


class _Answer(NamedTuple):
    evaluation: Evaluation
    charge: _Charge = _LONG_AGO


class _Begun:
    """An evaluation that was interrupted."""

    __slots__ = ("charge", "partial")

    def __init__(self, partial: Partial) -> None:
        self.partial = partial
        self.charge = _LONG_AGO


class _Text:
    """One expression, with its answers by the parts of a device that it reads."""

    __slots__ = ("answers", "begun", "charge", "probed", "program", "reads", "refusal")

    def __init__(self, text: str, charge: _Charge) -> None:
        program = _compiled(text)
        self.program = None if isinstance(program, str) else program
        self.refusal = program if isinstance(program, str) else ""
        self.reads = () if self.program is None else tuple(sorted(self.program.reads, key=repr))
        self.answers: dict[Hashable, _Answer] = {}
        self.begun: dict[Hashable, _Begun] = {}
        self.charge = charge
        self.probed = self.program is None
        """Whether it was checked if the expression costs too much for any device."""


_PROBE: Hashable = "on nothing"


class SelectorAnswers(
    DerivedValue,
    name="selector-answers",
    holds="results of CEL selectors, by expression and by the attributes it reads",
    inputs=("none: the key is the whole question",),
    saves="evaluating the selectors on every device",
):
    """The answers of all expressions that were evaluated for a state, up to a maximum number."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[str, _Text] = {}
        self.evaluations = 0
        """The number of evaluations; equal devices and repeated questions are evaluated once."""
        self.refusals = 0
        """Increases when an expression turns out to be unusable."""

    def refusal(self, text: str) -> str:
        """Why an expression cannot be used at all; "" if it can."""
        found = self._text(text)
        if not found.probed:
            self._probe(text, found, None)
        return found.refusal

    def answer(self, text: str, device: Device) -> Evaluation:
        """The result of an expression for a device: only `True` selects it."""
        found = self._text(text)
        if not found.probed:
            self._probe(text, found, None)
        if found.refusal:
            return Evaluation(error=found.refusal)
        answer = self._answer(found, _key(found.reads, device), lambda: _facts(device).document, None)
        assert answer is not None
        return answer

    def prepare(self, texts: Sequence[str], devices: Iterable[Device], purse: Purse) -> bool:
        """Evaluates expressions on devices as far as necessary; False if the purse did not suffice."""
        found: list[_Text] = []
        for text in texts:
            bought = self._bought(text, purse)
            if bought is None or not self._probe(text, bought, purse):
                return False
            if bought.refusal:
                return True
            found.append(bought)
        return all(self._holds(found, device, purse) is not None for device in devices)

    def _holds(self, texts: list[_Text], device: Device, purse: Purse) -> bool | None:
        """Whether all hold for a device; None if that is not known yet."""
        for text in texts:
            answer = self._answer(text, _key(text.reads, device), lambda: _facts(device).document, purse)
            if answer is None:
                return None
            if answer.value is not True:
                return False
        return True

    def _text(self, text: str, charge: _Charge = _LONG_AGO) -> _Text:
        found = self._texts.pop(text, None)
        if found is None:
            while len(self._texts) >= _KEPT_TEXTS:
                del self._texts[next(iter(self._texts))]
            found = _Text(text, charge)
        self._texts[text] = found
        return found

    def _bought(self, text: str, purse: Purse) -> _Text | None:
        """The compiled expression, if the purse can pay for compiling it."""
        known = self._texts.get(text)
        if known is None or known.charge.at == purse.now:
            if purse.left <= 0:
                return None
            purse.spend(COMPILING + PER_CHARACTER * len(text))
        found = self._text(text, _Charge(purse.now, 0))
        self.refusals += known is None and bool(found.refusal)
        return found

    def _probe(self, text: str, found: _Text, purse: Purse | None) -> bool:
        """Checks whether an expression costs too much for any device; False if that is not known yet."""
        if found.program is None:
            return True
        answer = self._answer(found, _PROBE, lambda: ENVIRONMENT.probe, purse)
        if answer is None:
            return False
        if not found.probed and answer.failed:
            found.refusal = str(ENVIRONMENT.too_dear(text))
            self.refusals += 1
        found.probed = True
        return True

    def _answer(self, found: _Text, key: Hashable, document: Document, purse: Purse | None) -> Evaluation | None:
        """The answer, evaluated now if it is not cached; None if the purse cannot pay for that."""
        known = found.answers.get(key)
        if known is not None and (purse is None or known.charge.at != purse.now):
            return known.evaluation
        if purse is not None and purse.left <= 0:
            return None
        if known is not None and purse is not None:
            purse.spend(known.charge.units)
            return known.evaluation
        return self._evaluate(found, key, document, purse)

    def _evaluate(self, found: _Text, key: Hashable, document: Document, purse: Purse | None) -> Evaluation | None:
        assert found.program is not None
        begun = found.begun.get(key)
        if begun is not None and purse is not None and begun.charge.at == purse.now:
            purse.spend(begun.charge.units)
            return None
        spent = EVALUATING
        if begun is None:
            self.evaluations += 1
            evaluation = found.program.run(document(), QUICK)
            spent += evaluation.steps
            if not evaluation.failed:
                return self._keep(found, key, evaluation, purse, spent)
            begun = _Begun(found.program.in_parts(document()))
        before = begun.partial.steps
        whole = begun.partial.advance(1 << 60 if purse is None else max(1, purse.left - spent))
        spent += begun.partial.steps - before
        if whole is not None:
            found.begun.pop(key, None)
            return self._keep(found, key, whole, purse, spent)
        assert purse is not None
        begun.charge = _Charge(purse.now, spent)
        found.begun[key] = begun
        purse.spend(spent)
        return None

    def _keep(self, found: _Text, key: Hashable, evaluation: Evaluation, purse: Purse | None, spent: int) -> Evaluation:
        if len(found.answers) >= _KEPT_ANSWERS:
            found.answers.clear()
        if purse is not None:
            purse.spend(spent)
        found.answers[key] = _Answer(evaluation, _LONG_AGO if purse is None else _Charge(purse.now, spent))
        return evaluation


# -- devices as expressions see them -----------------------------------------------------------------------------


class _Facts:
    """A device as an expression sees it, and its parts as comparable keys."""

    __slots__ = ("_document", "_domains", "device", "keys")

    def __init__(self, device: Device) -> None:
        self.device = device
        self._document: dict[str, Any] | None = None
        self._domains: dict[str, dict[str, dict[str, Hashable]]] | None = None
        self.keys: dict[tuple[Path, ...], Hashable] = {}

    @property
    def document(self) -> dict[str, Any]:
        if self._document is None:
            self._document = document(self.device)
        return self._document

    @property
    def domains(self) -> dict[str, dict[str, dict[str, Hashable]]]:
        """By variable, domain and name: the values as the device has them."""
        if self._domains is None:
            device = self.device
            self._domains = {
                "device.attributes": _by_domain(device.attributes, device.driver),
                "device.capacity": _by_domain({name: q.nanos for name, q in device.capacity.items()}, device.driver),
            }
        return self._domains

    def part(self, path: Path) -> Hashable:
        """Equal for devices that agree in what a path reads."""
        variable, *rest = path
        if variable == "device.driver":
            return self.device.driver
        if variable == "device.allowMultipleAllocations":
            return self.device.shareable
        domains = self.domains[str(variable)]
        if not rest:
            return tuple(sorted((name, _items(inner)) for name, inner in domains.items()))
        domain = domains.get(self.device.driver if isinstance(rest[0], ValueOf) else rest[0])
        if domain is None:
            return None
        if len(rest) == 1 or isinstance(rest[1], ValueOf):
            return _items(domain)
        return domain.get(rest[1])


def _items(values: dict[str, Hashable]) -> Hashable:
    return tuple(sorted(values.items(), key=lambda item: item[0]))


def _by_domain(values: Any, driver: str) -> dict[str, dict[str, Hashable]]:
    found: dict[str, dict[str, Hashable]] = {}
    for name, value in values.items():
        domain, _, key = name.rpartition("/")
        found.setdefault(domain or driver, {})[key] = value
    return found


_devices: dict[int, _Facts] = {}


def _facts(device: Device) -> _Facts:
    """Cached by identity; a device never changes."""
    known = _devices.get(id(device))
    if known is None or known.device is not device:
        if len(_devices) >= _KEPT_DEVICES:
            _devices.clear()
        known = _devices[id(device)] = _Facts(device)
    return known


def _key(reads: tuple[Path, ...], device: Device) -> Hashable:
    """What an expression that reads these parts can distinguish devices by."""
    if not reads:
        return ()
    facts = _facts(device)
    return tuple([facts.part(path) for path in reads])


def document(device: Device) -> dict[str, Any]:
    """The device as an expression sees it."""
    attributes = DefaultMap()
    for name, value in device.attributes.items():
        domain, _, key = name.rpartition("/")
        attributes.setdefault(domain or device.driver, {})[key] = _value(value)
    capacity = DefaultMap()
    for name, quantity in device.capacity.items():
        domain, _, key = name.rpartition("/")
        capacity.setdefault(domain or device.driver, {})[key] = CelQuantity(quantity.nanos)
    return {
        "device.driver": device.driver,
        "device.attributes": attributes,
        "device.capacity": capacity,
        "device.allowMultipleAllocations": device.shareable,
    }


def _value(value: Value) -> Any:
    match value:
        case Many(items):
            return [_value(item) for item in items]
        case Number():
            return int(value.value) if value.value == int(value.value) else float(value.value)
        case Version():
            return version_of(value.normal())
        case Flag():
            return value.value
        case Unreadable():
            return Failed(EvaluationError(f"{value.text!r:.80} is not a semantic version"))
        case _:
            return value.text
