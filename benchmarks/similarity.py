"""Are related tasks found to be alike?

    python benchmarks/similarity.py [--out benchmarks/results]

Small tasks of nine families, of which several compute the same in other words and some compute
something else in the same words (over other axes). Each is asked for its nearest among the others,
by the operators that ran (the multiset overlap) and by the signature of its graph. First: the share
whose nearest is of its own family; map: mean average precision; recall and precision of the pairs
by the least similarity. The families are also those on which SHARES and LEAST were chosen, so the
figures are of the choice, not of unseen tasks. Writes similarity.json; takes seconds, in this
process.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import recording
import torch
import torch.nn.functional as F
from torch import randint, randn

from harness.types import Case, Operator, Task, TensorSpec
from harness.workers import dataflow, operators
from kevolve_mcp.store.signature import Signature, overlap

LEASTS = (0.3, 0.4, 0.5, 0.6)
Computes = tuple[str, str, Callable[..., Any], tuple[Any, ...]]


def computes() -> list[Computes]:
    """Family, name, function, inputs."""
    found: list[Computes] = []

    def t(family: str, name: str, function: Callable[..., Any], *inputs: Any) -> None:
        found.append((family, name, function, inputs))

    x = randn(64, 512)
    r = randn(64, 512)
    w = randn(512)
    t(
        "row normalization",
        "rms",
        lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
        x,
    )
    t(
        "row normalization",
        "rms_res",
        lambda x, r: (lambda h: (h * torch.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6) * w, h))(
            x + r
        ),
        randn(8, 2048)[:, :512],
        randn(8, 512),
    )
    t("row normalization", "ln", lambda x: F.layer_norm(x, (512,), w, w), randn(128, 512))
    t(
        "row normalization",
        "ln_w",
        lambda x: (
            (x - x.mean(-1, keepdim=True))
            / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)
        ),
        randn(16, 1024),
    )
    t(
        "row normalization",
        "l2",
        lambda x: x / x.norm(dim=-1, keepdim=True).clamp_min(1e-6),
        randn(256, 128),
    )
    t("row normalization", "rmsF", lambda x: F.rms_norm(x, (768,)), randn(32, 768))
    c = randn(8, 32, 16, 16)
    t(
        "normalization over other axes",
        "bn",
        lambda x: F.batch_norm(x, None, None, training=True),
        c,
    )
    t(
        "normalization over other axes",
        "rms0",
        lambda x: x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-6),
        randn(512, 64),
    )
    t(
        "normalization over other axes",
        "ln_chan",
        lambda x: (
            (x - x.mean(1, keepdim=True))
            / torch.sqrt(x.var(1, unbiased=False, keepdim=True) + 1e-5)
        ),
        c,
    )
    t(
        "normalization over other axes",
        "l2_0",
        lambda x: x / x.norm(dim=0, keepdim=True),
        randn(1024, 32),
    )
    t("softmax", "F", lambda x: F.softmax(x, -1), x)
    t(
        "softmax",
        "w",
        lambda x: (lambda e: e / e.sum(-1, keepdim=True))((x - x.amax(-1, keepdim=True)).exp()),
        randn(32, 1000),
    )
    t("softmax", "log", lambda x: F.log_softmax(x, -1), randn(16, 4096))
    t("softmax", "ce", lambda x, y: F.cross_entropy(x, y), randn(64, 1000), randint(0, 1000, (64,)))
    t(
        "softmax",
        "scaled",
        lambda x, m: F.softmax(x * 0.125 + m, -1),
        randn(4, 32, 64),
        randn(4, 32, 64),
    )
    t("softmax", "temp", lambda x: torch.softmax(x / 0.7, 1), randn(128, 333))
    t(
        "softmax",
        "nll",
        lambda x, y: -(x - torch.logsumexp(x, -1, keepdim=True)).gather(1, y[:, None]).mean(),
        randn(64, 2000),
        randint(0, 2000, (64,)),
    )
    t("fused elementwise", "silu_mul", lambda x, g: F.silu(x) * g, x, r)
    t(
        "fused elementwise",
        "swish_w",
        lambda x, g: x / (1 + torch.exp(-x)) * g,
        randn(32, 2048),
        randn(32, 2048),
    )
    t("fused elementwise", "gelu_res", lambda x, r: r + F.gelu(x), x, r)
    t("fused elementwise", "gelu_bias", lambda x: F.gelu(x + w), x)
    t(
        "fused elementwise",
        "gelu_erf",
        lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
        randn(100000),
    )
    t("fused elementwise", "tanh_res", lambda x, r: r + torch.tanh(x), x, r)
    t(
        "fused elementwise",
        "sig_gate",
        lambda x, g: torch.sigmoid(g) * x + (1 - torch.sigmoid(g)) * g,
        x,
        r,
    )
    t("fused elementwise", "bias_relu", lambda x: F.relu(x + w), x)
    e = randn(1000, 64)
    ids = randint(0, 1000, (32, 16))
    t("lookup", "emb", lambda i: F.embedding(i, e), ids)
    t("lookup", "bag", lambda i: F.embedding(i, e).sum(1), ids)
    t("lookup", "wbag", lambda i, s: (e[i] * s[..., None]).sum(1), ids, randn(32, 16))
    t("lookup", "idx", lambda i: e.index_select(0, i), randint(0, 1000, (128,)))
    t("lookup", "emb_scale", lambda i: F.embedding(i, e) * 8.0, randint(0, 1000, (8, 128)))
    t(
        "lookup",
        "gather_mul",
        lambda x, i: torch.gather(x, 1, i) * 2,
        randn(64, 100),
        randint(0, 100, (64, 10)),
    )
    W = randn(512, 256)
    t("products", "mm", lambda x: x @ W, x)
    t("products", "lin_relu", lambda x: F.relu(F.linear(x, W.t(), randn(256))), x)
    t("products", "lin_gelu", lambda x: F.gelu(x @ W), randn(16, 512))
    t("products", "ffn", lambda x: F.relu(x @ W) @ W.t(), x)
    t("products", "bmm", lambda a, b: torch.bmm(a, b), randn(4, 32, 64), randn(4, 64, 32))
    t(
        "attention",
        "w",
        lambda q, k, v: F.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v,
        randn(4, 32, 64),
        randn(4, 32, 64),
        randn(4, 32, 64),
    )
    t(
        "attention",
        "sdpa",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        randn(1, 4, 64, 64),
        randn(1, 4, 64, 64),
        randn(1, 4, 64, 64),
    )
    t(
        "attention",
        "causal",
        lambda q, k, v: (
            (
                torch.softmax(
                    (q @ k.transpose(-1, -2) * 0.125).masked_fill(
                        torch.ones(32, 32).triu(1).bool(), -1e9
                    ),
                    -1,
                )
            )
            @ v
        ),
        randn(2, 32, 64),
        randn(2, 32, 64),
        randn(2, 32, 64),
    )
    t("scans", "cs", lambda x: torch.cumsum(x, -1), x)
    t("scans", "cs_ex", lambda x: torch.cumsum(x, -1) - x, randn(32, 4000))
    t("scans", "cs_mask", lambda x, m: torch.cumsum(x * m, 1), x, r)
    t("losses", "mse", lambda x, y: F.mse_loss(x, y), x, r)
    t("losses", "l1", lambda x, y: (x - y).abs().mean(), randn(32, 2048), randn(32, 2048))
    t("losses", "huber", lambda x, y: F.smooth_l1_loss(x, y), x, r)
    return found


def described(found: Computes) -> Task:
    """As opening it would."""
    _, name, function, inputs = found
    with torch.no_grad():
        with operators.Recorder() as recorder:
            function(*inputs)
        rows = dataflow.graph(lambda given: function(*given), list(inputs))
    ran = {k: v[0] for k, v in recorder.counts().items() if not operators.is_free(k)}
    specs = tuple(
        TensorSpec(tuple(t.shape), str(t.dtype).removeprefix("torch."), t.stride(), t.nbytes)
        for t in inputs
    )
    graph = tuple(Operator(name, tuple(reads), axes, extent) for name, reads, axes, extent in rows)
    return Task(name, name, "", cases=(Case("default", inputs=specs),), operators=ran, graph=graph)


def figures(families: list[str], alike: Callable[[int, int], float]) -> dict[str, Any]:
    """Of one way to compare."""
    first, precisions, pairs = 0, [], []
    for one, family in enumerate(families):
        others = sorted((n for n in range(len(families)) if n != one), key=lambda n: -alike(one, n))
        same = [families[n] == family for n in others]
        first += same[0]
        precisions.append(
            statistics.fmean([sum(same[: n + 1]) / (n + 1) for n, hit in enumerate(same) if hit])
        )
        pairs += [(alike(one, n), hit) for n, hit in zip(others, same, strict=True)]
    related = sum(hit for _, hit in pairs)
    kept = {least: [hit for value, hit in pairs if value >= least] for least in LEASTS}
    return {
        "first": round(first / len(families), 3),
        "map": round(statistics.fmean(precisions), 3),
        "recall": {least: round(sum(hits) / related, 3) for least, hits in kept.items()},
        "precision": {
            least: round(sum(hits) / max(1, len(hits)), 3) for least, hits in kept.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    out = parser.parse_args().out
    found = computes()
    families, tasks = [family for family, *_ in found], [described(each) for each in found]
    signatures = [Signature.of(task) for task in tasks]
    record = {
        "tasks": len(tasks),
        "families": sorted(set(families)),
        "torch": torch.__version__,
        "operators that ran": figures(
            families, lambda a, b: overlap(tasks[a].operators, tasks[b].operators)
        ),
        "signature": figures(families, lambda a, b: signatures[a].similarity(signatures[b])),
    }
    print({name: record[name] for name in ("operators that ran", "signature")})
    recording.write(out, "similarity", record)


if __name__ == "__main__":
    main()
