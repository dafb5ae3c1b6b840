"""The Python code of README.md and of docs. `python pages.py DIR` writes a module for each page, which `cargo xtask wheel --test` checks with
`mypy --strict` and pyright."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Parts of the class of a world, by a line of each.
INSIDE = ["own = draws.reserve(2)", "def legal(self, s):"]
#: What a module begins with: functions of the pages, rules of worlds among them, have no annotations.
BEFORE = """# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs, allow-redefinition
from typing import Any; import gymnasium; import operant; MyEnv: type[gymnasium.Env[Any, Any]] = gymnasium.Env
"""
#: What type checkers do not know: what is not installed, and what `operant.world` adds to a class. mypy does not check rules.
UNKNOWN = {
    "import h5py": "type: ignore[import-not-found]",
    "Balance.save(": "type: ignore[attr-defined]",
    "Treasure.save(": "type: ignore[attr-defined]",
    "self.State(": "pyright: ignore[reportAttributeAccessIssue]",
}


def blocks(page: Path) -> Iterator[tuple[int, str]]:
    """The blocks of Python in a page, and how many lines are before each."""
    text = page.read_text()
    for found in re.finditer(r"^```(?:python|py)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, found.start(1)), found[1]


def module(page: Path) -> str | None:
    """All blocks of a page in one module, each line in the place that it has in the page; None without blocks."""
    lines = BEFORE.splitlines()
    start = len(lines)
    for before, block in blocks(page):
        if any(line in block for line in INSIDE):
            continue
        assert before >= len(lines), f"{page}: its first block is in the first lines"
        lines += [""] * (before - len(lines)) + block.splitlines()
    for number, line in enumerate(lines):
        for text, comment in UNKNOWN.items():
            if text in line:
                lines[number] = f"{line.partition('  #')[0]}  # {comment}"
    return "\n".join(lines) + "\n" if len(lines) > start else None


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    for path in PAGES:
        text = module(path)
        if text is not None:
            (directory / f"{path.stem.lower().replace('-', '_')}_md.py").write_text(text)
