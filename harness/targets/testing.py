"""The conformance tests of architectures: inherit `ArchitectureConformance`, name the architecture,
and pytest runs the rest."""

from __future__ import annotations

from .architecture import Architecture, Binary


class ArchitectureConformance:
    """Tests that every architecture must pass. A subclass names the architecture."""

    def architecture(self) -> Architecture:
        raise AssertionError("a subclass returns its architecture here")

    def test_it_says_what_it_is(self) -> None:
        a = self.architecture()
        assert a.name
        assert a.product
        assert a.backend in ("cuda", "hip")
        assert a.warp_size in (32, 64)
        assert a.max_shared > 0
        assert a.compiler_arch

    def test_host_code_that_asks_about_the_device_is_answered(self) -> None:
        device = self.architecture().describe_device()
        major, minor = device["capability"]
        assert major > 0
        assert minor >= 0
        assert device["shared_block"] == self.architecture().max_shared <= device["shared"]
        assert all(
            device[name] > 0
            for name in ("multiprocessors", "warp_size", "threads", "registers", "memory", "cache")
        )
        assert isinstance(device["name"], str)
        assert isinstance(device["gcn"], str)

    def test_a_binary_without_texts_is_read_without_inventing_anything(self) -> None:
        facts = self.architecture().read(Binary(num_warps=4, shared=0))
        assert facts.mix == {}
        assert facts.matrix == {}
        assert facts.widths == {}
        assert not facts.spilled

    def test_texts_that_mean_nothing_raise_nothing(self) -> None:
        noise = "\0\n" * 50 + "/*0000*/ ;\n .vgpr_count: x\n"
        texts = dict.fromkeys(("ptx", "sass", "amdgcn"), noise)
        facts = self.architecture().read(
            Binary(num_warps=1, shared=0, texts=texts, resources=noise)
        )
        assert facts.occupancy.max_warps > 0

    def test_occupancy_falls_with_shared_memory_and_names_its_limiter(self) -> None:
        a = self.architecture()
        occupancies = [
            a.read(Binary(num_warps=4, shared=s)).occupancy
            for s in (0, 1 << 10, 16 << 10, a.max_shared, a.max_shared + 1)
        ]
        fractions = [o.fraction for o in occupancies]
        assert fractions == sorted(fractions, reverse=True)
        assert all(0 <= f <= 1 for f in fractions)
        assert occupancies[-2].blocks >= 1
        assert occupancies[-1].blocks == 0
        assert all(
            o.limiter in o.limits and o.limits[o.limiter] == min(o.limits.values())
            for o in occupancies
        )
