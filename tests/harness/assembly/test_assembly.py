"""Listings as text: loops from backward branches, the table's estimate, and what is said where
little is known."""

from __future__ import annotations

import pytest

from harness.assembly import Body, Inside, read
from harness.judge.attribution import loops
from harness.languages import Cpp

ARM = """
0000000000000740 <f>:
f():
/build/kernel.cpp:3
 740:	mov	x3, #0x0                   	// #0
/build/kernel.cpp:4 (discriminator 3)
 744:	ldr	q0, [x0, x3]
 748:	ldr	q1, [x1, x3]
 74c:	fmla	v2.4s, v0.4s, v1.4s
 750:	add	x3, x3, #0x10
 754:	cmp	x3, x2
 758:	b.ne	744 <f+0x4>  // b.any
/build/kernel.cpp:6
 75c:	ldr	z3, [sp, #16]
 760:	fadd	z0.s, z0.s, z3.s
 764:	cbnz	x4, 75c <f+0x1c>
 768:	ret
"""
LLVM = """
0000000000000740 <f>:
; f():
; /build/kernel.cpp:4
     740:      	vmulps	(%rdi,%rax), %ymm0, %ymm1
     744:      	vmovups	%ymm1, (%rsi,%rax)
     748:      	addq	$32, %rax
     74c:      	cmpq	%rax, %rdx
     750:      	jne	0x740 <f>
     754:      	jmp	0x760 <f+0x20>
     758:      	callq	0x30 <expf@plt>
     75c:      	retq
"""
RARE = """
0000000000000100 <f>:
 100:	test   %rdi,%rdi
 104:	je     130 <f+0x30>
 108:	vmovss (%rdi,%rax,4),%xmm0
 10c:	vucomiss %xmm0,%xmm1
 110:	ja     134 <f+0x34>
 114:	vmulss %xmm0,%xmm0,%xmm0
 118:	vmovss %xmm0,(%rsi,%rax,4)
 11c:	add    $0x1,%rax
 120:	cmp    %rax,%rdx
 124:	jne    108 <f+0x8>
 130:	ret
 134:	call   20 <expf@plt>
 138:	jmp    118 <f+0x18>
"""


def inside(*instructions: str, machine: str = "x86_64") -> Inside:
    """Of a loop made of these."""
    lines = [f"    {4096 + i:x}:\t{text}" for i, text in enumerate(instructions)]
    return read(
        "\n".join(["0000000000001000 <f>:", *lines, "    1ffe:\tjne    1000 <f>"]),
        "",
        "kernel.cpp",
        machine,
        ["f"],
    )


def static(found: Inside) -> dict[str, float]:
    data = loops.describe({"one": found}, {})
    facts: dict[str, float] = data["static"]
    return facts


PACKED = ("vmulps %ymm0,%ymm1,%ymm2",) * 8


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        (("vmulps %xmm0,%xmm1,%xmm2",) * 2, {"narrow_vectors"}),
        (("vmulps %xmm0,%xmm1,%xmm2",), set()),
        (("vxorps %xmm0,%xmm0,%xmm0",) * 9, set()),  # scalar code clears its registers
        (("mulps %xmm0,%xmm1",) * 8, set()),  # without AVX nothing is wider
        (("vmulps %xmm0,%xmm1,%xmm2",) * 8 + PACKED[:1], set()),
        ((*PACKED, "vdivps %ymm0,%ymm1,%ymm2", "vsqrtps %ymm0,%ymm1"), {"division_heavy"}),
        (
            (
                *PACKED,
                "vmulps %ymm0,%ymm1,%ymm2",
                "vdivps %ymm0,%ymm1,%ymm2",
                "vdivps %ymm0,%ymm1,%ymm2",
            ),
            set(),
        ),
        ((*PACKED[:3], "vdivps %ymm0,%ymm1,%ymm2"), set()),
        (
            (*PACKED, "vrsqrt14ps %ymm0,%ymm1", "vrsqrt14ps %ymm0,%ymm1", "vrcp14ps %ymm0,%ymm1"),
            set(),
        ),
        ((*PACKED, "idiv %rcx", "idivl (%rdi)"), {"division_heavy"}),
        (("idiv %rcx", "idiv %rcx"), set()),  # no arithmetic of which it would be a part
        (("vmulss %xmm0,%xmm1,%xmm2",), {"not_vectorized"}),
        ((*PACKED, "call   20 <expf@plt>"), {"transcendental_heavy"}),
        ((*PACKED, "call   20 <_ZGVdN8v_expf@plt>"), set()),  # eight at a time
        ((*PACKED, "vgatherdps %ymm1,(%rdi,%ymm0,4),%ymm2"), {"gather_heavy"}),
        ((*PACKED, "vmovaps %ymm2,0x20(%rsp)", "vmovaps 0x20(%rsp),%ymm3"), {"register_spill"}),
        ((*PACKED, "vmovups %ymm2,0x20(%rdi)", "vmovups 0x20(%rdi),%ymm3"), set()),
    ],
)
def test_signals_come_from_the_counts_of_the_loops(
    instructions: tuple[str, ...], expected: set[str]
) -> None:
    assert {s.name for s in Cpp().explain(static(inside(*instructions)))} == expected


def test_a_copy_to_the_stack_is_no_spill() -> None:
    copied = static(inside("vmovups (%rdi),%ymm0", "vmovaps %ymm0,0x40(%rsp)"))
    assert (copied["stack_copies"], copied["spills"]) == (1, 0)
    computed = static(
        inside("vmovups (%rdi),%ymm0", "vmulps %ymm0,%ymm0,%ymm0", "vmovaps %ymm0,0x40(%rsp)")
    )
    assert (computed["stack_copies"], computed["spills"]) == (0, 1)


def test_the_table_knows_chains_and_busy_units() -> None:
    def only(*instructions: str) -> Body:
        (body,) = inside(*instructions).functions["f"].bodies
        assert "table" in body.by
        assert "Agner Fog" in body.by
        return body

    chained = only("vaddss (%rdi),%xmm0,%xmm0", "vaddss 0x4(%rdi),%xmm0,%xmm0")
    assert chained.cycles == 8.0
    assert "dependencies" in chained.limit
    dividing = only("vdivps %ymm1,%ymm2,%ymm3")
    assert (dividing.cycles, dividing.limit) == (5.0, "divider units")
    assert only(*["vmovups %ymm0,(%rdi)"] * 3).pressure["store"] == 3.0


def test_the_words_of_llvm_objdump_are_read_too() -> None:
    found = read(LLVM, "\n\n\ny[i] = x[i] * w;", "kernel.cpp", "x86_64", ["f"])
    (body,) = found.functions["f"].bodies
    assert (body.bits, body.lanes, body.line, body.facts["instructions"]) == (256, 8, 4, 5)
    assert "; 4: y[i] = x[i] * w;" in body.text
    assert body.facts["math_calls"] == 0


def test_what_the_compiler_lays_elsewhere_is_rare() -> None:
    (body,) = read(RARE, "", "kernel.cpp", "x86_64", ["f"]).functions["f"].bodies
    assert body.facts["math_calls"] == 0
    assert body.facts["scalar"] == 2
    assert "2 instructions of this loop are elsewhere" in body.text


def test_aarch64_says_what_it_knows() -> None:
    found = read(ARM, "a\nb\nc\nd\ne\nf", "kernel.cpp", "aarch64", ["f"])
    neon, scalable = found.functions["f"].bodies
    assert (neon.bits, neon.lanes, neon.line) == (128, 4, 4)
    assert neon.facts["packed"] == 1
    assert "Neoverse N1" in neon.by
    assert neon.cycles is not None
    assert neon.cycles >= 3.0  # the accumulator is the next iteration's input
    assert (scalable.bits, scalable.lanes, scalable.facts["reloads"]) == (-1, 0, 1)


def test_another_processor_is_said_to_be_unknown() -> None:
    found = read(ARM, "", "kernel.cpp", "riscv64", ["f"])
    assert found.functions == {}
    assert "riscv64" in found.note
    data = loops.describe({"one": found}, {})
    assert data["static"] == {}
    assert "riscv64" in data["listings"]["note"]


@pytest.mark.parametrize(
    "listing",
    [
        "",
        "no instruction",
        "\t\t\n" * 10,
        "main:\n  0:\tret\n",
        "00 <f>:\n 0:\t\n 1:\tjmp\n",
        "00 <f>:\n 0:\tjmp 0 <f>\n",
    ],
)
def test_any_listing_is_read(listing: str) -> None:
    for machine in ("x86_64", "aarch64"):
        assert isinstance(read(listing, "", "kernel.cpp", machine, []), Inside)
