"""Amounts and times as people read them in a table; JSON and YAML have them exactly."""

from __future__ import annotations

_STEPS = ((1 << 60, "Ei"), (1 << 50, "Pi"), (1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))
_SECOND = 1_000_000
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def readable(name: str, text: str) -> str:
    """`65843172Ki` of memory as `62.8Gi`, `3900m` of cpu as `3.9`; another resource as it is."""
    from fairway.errors import InputError
    from fairway.resources.quantity import AmountUnit, parse_amount, unit_of

    try:
        amount = parse_amount(name, text)
    except InputError:
        return text
    unit = unit_of(name)
    if unit is AmountUnit.BYTE:
        size, suffix = next(((size, suffix) for size, suffix in _STEPS if amount >= size), (1, ""))
        return f"{_short(amount / size)}{suffix}"
    return _short(amount / 1000) if unit is AmountUnit.MILLI else text


def _short(number: float) -> str:
    """At most three digits that say something; a whole number whole."""
    text = f"{number:.0f}" if number >= 100 else f"{number:.3g}"
    return text if "e" not in text else f"{number:.6f}".rstrip("0").rstrip(".")


def age(span: int) -> str:
    """A span in its largest unit, in two where the first says little: `45s`, `3m20s`, `95m`, `5h`, `2d4h`, `40d`."""
    seconds = max(span, 0) // _SECOND
    for place, (size, unit) in enumerate(_UNITS):
        if seconds >= 2 * size or size == 1:
            whole, rest = divmod(seconds, size)
            if whole >= 10 or size == 1:
                return f"{whole}{unit}"
            lower, name = _UNITS[place + 1]
            return f"{whole}{unit}" + (f"{rest // lower}{name}" if rest // lower else "")
    raise AssertionError
