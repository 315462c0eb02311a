"""Columns of text: whatever a name is made of, it takes as many as it was given."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fairway.cli.screen.rows import bar, clean, fitted, wrapped

TEXTS = st.text(max_size=60) | st.text(alphabet="ab資料e\u0301\N{PARTY POPPER} -", max_size=300)


@given(TEXTS, st.integers(1, 60))
def test_a_cell_is_as_wide_as_its_column(text: str, width: int) -> None:
    assert cell_len(fitted(clean(text), width)) == width


def seen(text: str) -> str:
    """What takes room, but for spaces."""
    return "".join(character for word in text.split() for character in word if cell_len(character))


@given(TEXTS, st.integers(2, 60))
def test_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    lines = wrapped(clean(text), width)
    assert all(cell_len(line) <= width for line in lines)
    assert seen("".join(lines)) == seen(clean(text))


def test_a_long_name_keeps_both_ends() -> None:
    assert fitted("language/very-long-name-of-a-job-00012", 20) == "language/very…-00012"
    assert fitted("short", 8) == "short   "


@given(st.floats(0, 5), st.integers(1, 20))
def test_a_bar_shows_little_and_much(part: float, width: int) -> None:
    shown = bar(part, width)
    assert len(shown) == width
    assert ("█" in shown) == (part > 0)
    assert "░" not in shown or part < 1
