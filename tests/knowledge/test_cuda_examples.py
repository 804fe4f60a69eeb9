"""The CUDA C++ of the pages and samples: what is marked `cuda compile arch=sm_90` goes through
nvcc for the architectures it names; so does the source of each sample's candidate."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.types import Candidate
from knowledge import Library

from .test_content import blocks
from .test_samples import block

NVCC = shutil.which("nvcc")
SAMPLES_FOR = "sm_90"


def examples() -> Iterator[tuple[str, str, str]]:
    """(page, architecture, code)."""
    library = Library.builtin()
    for page, words, code in blocks(library, "cuda"):
        given = dict(word.partition("=")[::2] for word in words)
        if "compile" in given:
            for arch in given["arch"].split(","):
                yield page.id, arch, code
    for page in library.pages():
        if page.category == "sample" and "cuda" in page.languages:
            text = block(page, "candidate")
            params = Candidate(text, "cuda").params()
            defines = "".join(f"#define {name} {value}\n" for name, value in params.items())
            for code in re.findall(r'= r"""\n(.*?)"""', text, flags=re.DOTALL):
                yield page.id, SAMPLES_FOR, defines + code
    library.close()


EXAMPLES = list(examples())


def test_there_are_examples() -> None:
    pages = {page for page, _, _ in EXAMPLES}
    assert sum(page.startswith("samples/") for page in pages) >= 3
    assert sum(not page.startswith("samples/") for page in pages) >= 3


@pytest.mark.skipif(NVCC is None, reason="needs nvcc")
@pytest.mark.parametrize(
    ("page", "arch", "code"), EXAMPLES, ids=[f"{page}@{arch}" for page, arch, _ in EXAMPLES]
)
def test_cuda_blocks_compile(page: str, arch: str, code: str, tmp_path: Path) -> None:
    source = tmp_path / "example.cu"
    source.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [str(NVCC), "-std=c++17", "-cubin", f"-arch={arch}", "-o", "example.cubin", source.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "example.cubin").stat().st_size
