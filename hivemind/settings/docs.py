"""The text under each setting, as it stands in the source.

Pydantic can read it too (`use_attribute_docstrings`), but looks at each class on its own, which takes longer than all
the rest of a start's settings together.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise


def described(model: type, name: str) -> str:
    """The text under an attribute of a class, in its own module or that of the class which it has it from; empty where
    there is none."""
    found = (
        _texts(base.__module__).get((base.__name__, name))
        for base in model.__mro__
        if name in inspect.get_annotations(base)
    )
    return next((text for text in found if text), "")


@cache
def _texts(module: str) -> dict[tuple[str, str], str]:
    """By class and attribute."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        (model.name, line.target.id): inspect.cleandoc(text.value.value)
        for model in tree.body
        if isinstance(model, ast.ClassDef)
        for line, text in pairwise(model.body)
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
