"""The docstrings of attributes, read from the source.

Pydantic's `use_attribute_docstrings` reads them too, but class by class, which takes longer than everything else in
loading the settings.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise


def described(model: type, name: str) -> str:
    """Return the docstring of a class's attribute, its own or inherited; empty if there is none."""
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
