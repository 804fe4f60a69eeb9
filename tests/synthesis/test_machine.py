"""Facts of a machine in words."""

from harness.types import Ceilings, Environment
from kevolve_mcp.synthesis.machine import about, device, rates

KEY = "cpu:AMD EPYC 7B13: 64-Core:avx2+fma:L132KiB,L2512KiB,L332768KiB"
SAID = "AMD EPYC 7B13: 64-Core; caches L1 32 KiB, L2 512 KiB, L3 32,768 KiB; vector avx2 fma"


def test_the_key_of_a_processor_is_read_and_any_other_left() -> None:
    assert device(KEY) == SAID
    assert device(f"{KEY}:triton-interpreter") == f"{SAID}; in Triton's interpreter"
    for other in ("cuda:NVIDIA H100:sm_90:79GiB:580.95", "cpu:fake", "", "none:triton-interpreter"):
        assert device(other) == other


def test_what_is_on_another_target_is_not_told_of_the_processor() -> None:
    host = Environment(KEY, "", facts={"model": "AMD EPYC", "caches": "L3 32768 KiB"})
    assert about(host, "cpu") == "model AMD EPYC; caches L3 32,768 KiB"
    gpu = Environment("cuda:NVIDIA H100:sm_90:79GiB:580.95", "", facts={"model": "AMD EPYC"})
    assert about(gpu, "cuda:sm_90") == gpu.device


def test_the_last_level_has_no_end() -> None:
    found = Ceilings(
        {"L1": 2e11, "L3": 1.2345e12, "memory": 2e10},
        {},
        {"float32": 1.5e12},
        {"L1": 32768, "L3": 33554432, "memory": 1 << 62},
        0.5,
    )
    assert rates(found) == (
        "L1 200.0 GB/s up to 32 KiB, L3 1,234.5 GB/s up to 32,768 KiB, memory 20.0 GB/s; "
        "float32 1,500 Gop/s; shortest call 0.5 us"
    )
