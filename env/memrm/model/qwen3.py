"""Qwen3 in few lines: trained from scratch, extended from cached keys and values, and exported to ONNX.

Weights carry the names that transformers gives them, so that its ``Qwen3ForCausalLM`` loads the same checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Qwen3Config:
    """Sizes, under transformers' names."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-6


class Norm(nn.Module):
    """Root mean square normalisation."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return self.weight * (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps))


class Attention(nn.Module):
    """Grouped causal attention with normalised queries and keys."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.heads, self.groups, self.size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, self.heads * self.size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.groups * self.size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.groups * self.size, bias=False)
        self.o_proj = nn.Linear(self.heads * self.size, config.hidden_size, bias=False)
        self.q_norm = Norm(self.size, config.rms_norm_eps)
        self.k_norm = Norm(self.size, config.rms_norm_eps)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], past: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the output and the new keys and values, shape ``(2, batch, groups, new, head)``."""
        batch, new, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(batch, new, self.heads, self.size)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(batch, new, self.groups, self.size)).transpose(1, 2)
        v = self.v_proj(x).view(batch, new, self.groups, self.size).transpose(1, 2)
        q, k = _turned(q, turn), _turned(k, turn)
        new_past = torch.stack([k, v])
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        times = self.heads // self.groups
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.o_proj(out.transpose(1, 2).reshape(batch, new, self.heads * self.size)), new_past


class Mlp(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """Attention, then the feed-forward layer, each normalised and added."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(config), Mlp(config)
        self.input_layernorm = Norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], past: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the output and the new keys and values."""
        attended, new_past = self.self_attn(self.input_layernorm(x), turn, past, mask)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), new_past


class Body(nn.Module):
    """Embeddings, layers and the last normalisation."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)


class Qwen3(nn.Module):
    """A causal language model with tied embeddings that is asked for two answers only."""

    def __init__(self, config: Qwen3Config, answers: tuple[int, int]) -> None:
        """Make one with normal(0, 0.02) weights from torch's generator; ``answers`` are the ids of safe and harmful."""
        super().__init__()
        self.config, self.answers = config, answers
        self.model = Body(config)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, ids: Tensor, length: Tensor) -> Tensor:
        """Return the answers' logits, shape ``(batch, 2)``; ``ids`` are padded on the right to ``(batch, new)``."""
        place = torch.arange(ids.shape[1], device=ids.device)[None]
        logits, _ = self._run(ids, length, place, None, None)
        return logits

    def extend(self, ids: Tensor, length: Tensor, past: Tensor, past_length: Tensor) -> tuple[Tensor, Tensor]:
        """Return the answers' logits and the new keys and values, shape ``(layers, 2, batch, groups, new, head)``.

        ``past`` has the same shape for the tokens before, padded on the right; ``past_length`` says how many are real.
        """
        old, new = past.shape[4], ids.shape[1]
        place = past_length[:, None] + torch.arange(new, device=ids.device)[None]
        real = torch.arange(old, device=ids.device)[None] < past_length[:, None]
        causal = torch.ones(new, new, dtype=torch.bool, device=ids.device).tril()
        batch = ids.shape[0]
        seen = torch.cat([real[:, None].expand(batch, new, old), causal[None].expand(batch, new, new)], dim=2)
        return self._run(ids, length, place, past, seen[:, None])

    def _run(
        self, ids: Tensor, length: Tensor, place: Tensor, past: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        half = torch.arange(0, self.config.head_dim, 2, device=ids.device).float() / self.config.head_dim
        angle = place[..., None].float() / self.config.rope_theta**half
        angle = torch.cat([angle, angle], dim=-1)[:, None]
        turn = angle.cos(), angle.sin()
        x, new_past = self.model.embed_tokens(ids), []
        for i, layer in enumerate(self.model.layers):
            x, new = layer(x, turn, None if past is None else past[i], mask)
            new_past.append(new)
        last = x.gather(1, (length - 1)[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]
        return self.model.norm(last) @ self.model.embed_tokens.weight[list(self.answers)].T, torch.stack(new_past)


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Turn queries or keys by their places, as rotary embeddings do."""
    low, high = x.chunk(2, dim=-1)
    return x * turn[0] + torch.cat([-high, low], dim=-1) * turn[1]
