"""What the sources keep to, read from their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# names of target families and languages: what differs between them is said in these packages alone
NAMES = {"cpu", "cuda", "hip", "cpp", "triton"}
WHERE_NAMES_DECIDE = ("harness/targets/", "harness/languages/")
MOST_TEST_NAME = 70
ODD = "tests/data/"  # files that tests feed in, one of them a syntax error


def _sources(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if (name := path.relative_to(ROOT).as_posix()).startswith(ODD):
                continue
            yield name, ast.parse(path.read_text())


def _texts(node: ast.expr) -> list[str]:
    """The strings that an operand of a comparison consists of."""
    elements = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    return [e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]


def _asks_for_a_name(node: ast.AST) -> bool:
    """Whether it compares something with a family or a language. The kind of a torch device, as in
    `tensor.device.type == "cpu"`, is torch's own; so is a module's name among those to import."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        asked = node.func.attr in ("startswith", "endswith")
        return asked and any(text in NAMES for a in node.args for text in _texts(a))
    if not isinstance(node, ast.Compare):
        return False
    operands = [node.left, *node.comparators]
    if any(isinstance(o, ast.Attribute) and o.attr == "type" for o in operands):
        return False
    if any(isinstance(o, ast.Name) and o.id == "preload" for o in operands):
        return False
    by_identity = any(isinstance(o, (ast.Is, ast.IsNot)) for o in node.ops)
    modules = [o.id for o in operands if isinstance(o, ast.Name)] if by_identity else []
    texts = [text for operand in operands for text in _texts(operand)]
    return any(name in NAMES for name in (*modules, *texts))


def test_what_differs_by_device_or_language_is_asked_of_their_classes() -> None:
    found = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, tree in _sources("harness", "kevolve_mcp")
        if not path.startswith(WHERE_NAMES_DECIDE)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Compare, ast.Call)) and _asks_for_a_name(node)
    ]
    advice = "say it by an attribute of the target family, the target or the language"
    assert not found, f"{advice}: {found}"


def test_a_class_of_the_harness_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in _sources("harness"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert not shared, f"name one of each after what is different: {shared}"


def test_names_of_tests_can_be_read_at_a_glance() -> None:
    long = [
        f"{path}: {node.name}"
        for path, tree in _sources("tests", "harness", "kevolve_mcp")
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
        and len(node.name) > MOST_TEST_NAME
    ]
    assert not long, f"at most {MOST_TEST_NAME} characters: {long}"


def test_tests_of_the_harness_lie_where_what_they_test_lies() -> None:
    own = ROOT / "tests" / "harness"
    folders = {path.parent.relative_to(own).as_posix() for path in own.rglob("test_*.py")}
    strange = sorted(f for f in folders if f == "." or not (ROOT / "harness" / f).is_dir())
    assert not strange, f"tests/harness/ mirrors harness/; there is no such package: {strange}"


# what a value says of itself is asked by field: none of these is taken apart as a text, or read by
# a string key
VALUES = {"author", "origin", "options", "outcome"}
CUTTING = {"startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "get"}


def _taken_apart(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        owner, by_text = node.value, isinstance(node.slice, ast.Constant)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner, by_text = node.func.value, node.func.attr in CUTTING
    else:
        return False
    return by_text and isinstance(owner, ast.Attribute) and owner.attr in VALUES


def test_nobody_reads_authors_origins_options_or_outcomes_as_texts() -> None:
    assert not [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, tree in _sources("kevolve_mcp")
        for node in ast.walk(tree)
        if isinstance(node, (ast.Subscript, ast.Call)) and _taken_apart(node)
    ]
