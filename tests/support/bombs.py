"""CEL expressions that cost far more than they look like, or fail in ways of their own."""

_HUNDRED = f"[{', '.join(map(str, range(100)))}]"


def nested_all(depth: int = 3) -> str:
    """A comprehension in a comprehension: 100 to the power of `depth` steps."""
    text = "true"
    for level in range(depth):
        text = f"{_HUNDRED}.all(x{level}, {text})"
    return text


def doubled(depth: int = 25, start: str = "'aaaaaaaaaaaaaaaa'") -> str:
    """A value that is twice as large at each step."""
    text = f"x{depth} == x0"
    for level in reversed(range(depth)):
        text = f"cel.bind(x{level + 1}, x{level} + x{level}, {text})"
    return f"cel.bind(x0, {start}, {text})"


def shared(depth: int = 28) -> str:
    """A small value that has itself twice at each step: comparing it takes 2 to the power of `depth` steps."""
    text = f"x{depth} == x{depth}"
    for level in reversed(range(depth)):
        text = f"cel.bind(x{level + 1}, [x{level}, x{level}], {text})"
    return f"cel.bind(x0, [1, 2], {text})"


def mapped(depth: int = 28) -> str:
    """The same by comprehensions."""
    text = "['aaaaaaaaaaaaaaaa']"
    for _ in range(depth):
        text = f"{text}.map(x, x + x)"
    return f"{text}[0] == 'b'"


BOMBS = {
    "nested all": nested_all(),
    "doubled text": doubled(),
    "doubled list": doubled(start="[1, 2, 3]"),
    "shared": shared(),
    "mapped": mapped(),
    "deep brackets": "(" * 200 + "true" + ")" * 200,
    "too long": "true" + " && true" * 20_000,
    "half a character": "'\ud800' == 'a'",
    "a zero byte": "'\0' == 'a'",
    "not an expression": "(((",
    "a backtracking pattern": "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a*)*b')",
    "a giant number": "1" * 5000 + " > 0",
}
