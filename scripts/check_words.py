"""Refuse words in docstrings and comments that every reader would have to translate.

    python scripts/check_words.py FILE...

Prints one line per finding and ends with code 1 if there is any.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

# A word or phrase, and what to write instead.
BANNED = {
    "how-manieth": "index",
    "whoever": "any thread, any peer, the process that",
    "of late": "recent",
    "by its own": "alone",
    "who waits": "what waits",
}
_WORDS = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, BANNED)) + r")(?![\w-])", re.I)


def findings(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a module where a docstring or a comment has a banned word, and the word."""
    for line, text in [*_docstrings(source), *_comments(source)]:
        for k, part in enumerate(text.split("\n")):
            for found in _WORDS.finditer(part):
                yield line + k, found[1].lower()


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield node.lineno, value.value


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def main(paths: list[str]) -> int:
    """Check these files; the number to end with."""
    count = 0
    for path in paths:
        for line, word in sorted(findings(Path(path).read_text(encoding="utf-8"))):
            sys.stdout.write(f'{path}:{line}: "{word}"; write: {BANNED[word]}\n')
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
