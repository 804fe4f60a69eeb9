"""What a document may be about: signals and operator families proposed from its words, for a person
to review; pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .cleaning import plain
from .passages import DocumentPassage

MAX_SIGNALS, MAX_FAMILIES = 5, 4
LEAST_PASSAGES = 2  # with its words, or all passages of a short document
LEAST_SHARE = 0.01
SAMPLE = 500  # passages examined, spread evenly over the document

SIGNAL_WORDS: dict[str, tuple[str, ...]] = {
    "memory_bound": ("bandwidth", "prefetch", "cache line", "coalesc", "memory-bound",
                     "memory bound", "streaming store", "non-temporal"),
    "compute_bound": ("throughput", "flops", "multiply-accumulate", "matrix unit", "tensor core",
                      "peak performance", "systolic"),
    "latency_bound": ("latency", "stall", "dependency", "pipeline depth", "software pipelin",
                      "scoreboard"),
    "launch_bound": ("kernel launch", "launch overhead", "dispatch overhead", "command queue",
                     "doorbell"),
    "allocation_bound": ("allocation", "page fault", "huge page", "memory pool"),
    "not_vectorized": ("vector", "simd", "lane", "intrinsic"),
    "narrow_vectors": ("vector length", "vector width", "lmul", "register group", "vlen"),
    "register_spill": ("spill", "register pressure", "register file", "number of registers",
                       "register allocation"),
    "low_occupancy": ("occupancy", "resident thread", "concurrent thread", "threads per core",
                      "warps per"),
    "gather_heavy": ("gather", "scatter", "indexed load", "indirect access"),
    "division_heavy": ("division", "divide", "square root", "reciprocal"),
    "transcendental_heavy": ("exponential", "transcendental", "tanh", "special function",
                             "logarithm"),
    "wrong.precision": ("rounding", "bfloat16", "fp8", "accumul", "denormal", "subnormal"),
    "wrong.race": ("barrier", "memory ordering", "data race", "fence", "synchron", "atomic"),
    "wrong.tail": ("tail element", "remainder", "predicate", "masked", "tail-agnostic",
                   "tail undisturbed"),
    "wrong.non_finite": ("infinity", "nan", "overflow", "underflow"),
    "compile_error.unsupported_instruction": ("illegal instruction", "unsupported",
                                              "instruction set extension", "march=",
                                              "feature flag"),
    "compile_error.resource_limit": ("scratchpad size", "local memory size", "maximum number of",
                                     "shared memory", "capacity"),
    "crash.illegal_address": ("address fault", "access fault", "misaligned", "alignment"),
}  # fmt: skip
"""Signal -> words of documents that explain it. In proposals a word matches words that begin with
it, in searches words with its stem."""

FAMILY_WORDS: dict[str, tuple[str, ...]] = {
    "matmul": ("matrix multipl", "matmul", "gemm", "dot product", "outer product",
               "multiply-accumulate", "systolic"),
    "convolution": ("convolution", "im2col"),
    "attention": ("attention",),
    "quantized": ("int8", "int4", "quantiz", "fp8", "dequantiz", "narrowing"),
    "softmax": ("softmax", "logsumexp"),
    "normalization": ("normalization", "layer norm", "rmsnorm", "batch norm"),
    "embedding": ("embedding",),
    "sort": ("sorting", "top-k", "bitonic"),
    "scan": ("prefix sum", "cumulative", "exclusive scan", "inclusive scan"),
    "scatter": ("scatter", "indexed store", "atomic add"),
    "gather": ("gather", "indexed load", "lookup table"),
    "reduction": ("reduction", "horizontal sum", "reduce"),
    "elementwise": ("element-wise", "elementwise", "per-element"),
    "layout": ("transpose", "permut", "shuffle", "slide", "swizzle"),
    "random": ("random number", "philox"),
    "pooling": ("pooling",),
}  # fmt: skip


@dataclass(frozen=True)
class Labels:
    """What a document is about: signals, the most frequent first, and operator families."""

    signals: tuple[str, ...] = ()
    families: tuple[str, ...] = ()


def propose(passages: Sequence[DocumentPassage]) -> Labels:
    """Return the signals and families whose words occur in the most passages. Equal texts give
    equal proposals."""
    step = -(-len(passages) // SAMPLE) or 1
    texts = [plain(f"{passage.heading} {passage.text}") for passage in passages[::step]]
    return Labels(_most(texts, SIGNAL_WORDS, MAX_SIGNALS), _most(texts, FAMILY_WORDS, MAX_FAMILIES))


def words_of(signals: Iterable[str]) -> tuple[str, ...]:
    """Return the words to search documents for, given signals; `a.b` includes the words of `a`."""
    found = [
        word.strip()
        for name in signals
        for known, words in SIGNAL_WORDS.items()
        if _same(name, known)
        for word in words
    ]
    return tuple(dict.fromkeys(found))


def _same(name: str, known: str) -> bool:
    return name == known or name.startswith(f"{known}.") or known.startswith(f"{name}.")


def _most(
    texts: Sequence[str], vocabulary: Mapping[str, tuple[str, ...]], limit: int
) -> tuple[str, ...]:
    wanted = {name: [plain(word).rstrip() for word in words] for name, words in vocabulary.items()}
    counts = Counter(
        {
            name: sum(any(word in text for word in words) for text in texts)
            for name, words in wanted.items()
        }
    )
    least = max(min(LEAST_PASSAGES, len(texts)), LEAST_SHARE * len(texts))
    return tuple(name for name, count in counts.most_common(limit) if count and count >= least)
