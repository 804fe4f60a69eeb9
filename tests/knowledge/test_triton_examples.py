"""The Triton of the pages: blocks marked `python triton` compile for the targets that they name.

The words after that say how: `kernel=NAME` and `sig=*fp32,*fp32,i32` (the arguments that are not
tl.constexpr, in order), then one `NAME=VALUE` for each tl.constexpr, `num_warps=4` and the like,
and `target=cuda:90,cuda:100,hip:gfx942` (cuda:90 without it).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from knowledge import Library

from .test_content import blocks

triton = pytest.importorskip("triton")

HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
OPTIONS = ("num_warps", "num_stages", "num_ctas", "waves_per_eu", "matrix_instr_nonkdim", "kpack")


def examples() -> Iterator[tuple[str, dict[str, str], str]]:
    library = Library.builtin()
    for page, words, code in blocks(library, "python"):
        if words[:1] == ["triton"]:
            given = dict(word.split("=", 1) for word in words[1:])
            for target in given.pop("target", "cuda:90").split(","):
                yield page.id, {**given, "target": target}, code
    library.close()


EXAMPLES = list(examples())


@pytest.mark.parametrize(
    ("page", "given", "code"),
    EXAMPLES,
    ids=[f"{page}:{given['kernel']}@{given['target']}" for page, given, _ in EXAMPLES],
)
def test_triton_blocks_compile(page: str, given: dict[str, str], code: str, tmp_path: Path) -> None:
    build(given, HEADER + code, tmp_path)


def build(given: Mapping[str, str], code: str, folder: Path) -> Any:
    """One kernel of the module compiled for one target, without a GPU."""
    kernel = getattr(loaded(code, folder), given["kernel"])
    plain = [name for name in kernel.arg_names if name not in given]
    types = given["sig"].split(",")
    assert len(plain) == len(types), (plain, types)
    constants = {name: value(given[name]) for name in kernel.arg_names if name in given}
    signature = {
        name: "constexpr" if name in constants else types[plain.index(name)]
        for name in kernel.arg_names
    }
    options = {name: value(given[name]) for name in OPTIONS if name in given}
    family, _, arch = given["target"].partition(":")
    wave = 32 if family == "cuda" or arch.startswith(("gfx10", "gfx11", "gfx12")) else 64
    target = triton.backends.compiler.GPUTarget(family, int(arch) if arch.isdigit() else arch, wave)
    source = triton.compiler.ASTSource(kernel, signature, constexprs=constants)
    compiled = triton.compile(source, target=target, options=options)
    assert compiled.asm["cubin" if family == "cuda" else "hsaco"]
    return compiled


def loaded(code: str, folder: Path) -> ModuleType:
    """The block as a module: Triton reads kernels from files."""
    path = folder / "example.py"
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("example", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def value(text: str) -> Any:
    return {"True": True, "False": False}.get(
        text, int(text) if text.lstrip("-").isdigit() else text
    )
