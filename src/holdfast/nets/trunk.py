"""A causal transformer: tokens in, tokens out (pre-LN, GELU, no biases)."""

from math import sqrt
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.nets.dropout import dropout
from holdfast.nets.norm import Norm, seeds

Read = slice | Tensor  # which tokens of a sequence are read: a slice of them, or their positions
ALL = slice(None)


class Attention(nn.Module):
    """Causal self-attention; with `allowed`, only between the tokens that this mask allows.

    All tokens are attended to, and only those in `read` attend.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.mix = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, tokens: Tensor, allowed: Tensor | None, read: Read = ALL) -> Tensor:
        mixed = self.mix(tokens).unflatten(-1, (3, self.heads, -1))  # (B, L, 3, H, D/H)
        queries, keys, values = (part.transpose(1, 2) for part in mixed.unbind(2))  # (B, H, L, D/H) each
        if read is not ALL:
            queries = queries[:, :, read]
            allowed = (causal(tokens) if allowed is None else allowed)[..., read, :]
        share = self.dropout if self.training else 0.0
        seen = attend(queries, keys, values, allowed, share)
        return self.output(seen.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """The attention and MLP branches of a block, each with its LayerNorm; `Trunk` adds them to the tokens."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm, self.wide_norm = (Norm(width, True, dropout) for _ in range(2))
        self.attention = Attention(width, heads, dropout)
        self.wide = nn.Sequential(
            nn.Linear(width, 4 * width, bias=False), nn.GELU(), nn.Linear(4 * width, width, bias=False)
        )


@torch.no_grad()
def remove_idle_units(net: nn.Module) -> None:
    """Removes hidden units of all blocks that have no incoming or no outgoing weights other than zero.

    They add nothing but zeros, since there are no biases and GELU(0) = 0.
    """
    for block in net.modules():
        if isinstance(block, Block):
            first, last = block.wide[0], block.wide[2]
            assert isinstance(first, nn.Linear)
            assert isinstance(last, nn.Linear)
            used = first.weight.any(1) & last.weight.any(0)
            first.weight = nn.Parameter(first.weight[used], requires_grad=False)
            last.weight = nn.Parameter(last.weight[:, used], requires_grad=False)
            first.out_features = last.in_features = int(used.sum())


class Trunk(nn.Module):
    """All blocks, with a LayerNorm before the first and after the last."""

    def __init__(self, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.first_norm, self.last_norm = Norm(width), Norm(width, True, dropout)
        self.dropout = dropout
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))

    def forward(self, tokens: Tensor, allowed: Tensor | None = None, read: Read = ALL) -> Tensor:
        """The outputs at the tokens that are read; the last block computes no others."""
        tokens = dropout(self.first_norm(tokens), self.dropout, self.training)
        blocks = cast(list[Block], self.blocks)
        first, *following = [block.attention_norm for block in blocks] + [self.last_norm]
        normed, seed = first(tokens), iter(seeds(tokens, 2 * len(blocks)))
        reads = [ALL] * (len(blocks) - 1) + [read]
        for block, norm, which in zip(blocks, following, reads, strict=True):
            seen = block.attention(normed, allowed, which)
            tokens, normed = block.wide_norm.add_and_norm(tokens[:, which], seen, next(seed))
            tokens, normed = norm.add_and_norm(tokens, block.wide(normed), next(seed))
        return normed


def attend(queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None, share: float) -> Tensor:
    """Scaled dot-product attention, causal without `allowed`, that drops a share of its weights."""
    if share == 0 or queries.device.type != "cpu":
        return F.scaled_dot_product_attention(queries, keys, values, allowed, share, is_causal=allowed is None)
    allowed = causal(queries) if allowed is None else allowed
    scores = (queries / sqrt(queries.shape[-1])) @ keys.transpose(-2, -1)  # (B, H, L, L)
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    return dropout(weights, share, True) @ values


def causal(tokens: Tensor) -> Tensor:
    """The mask with which every token attends to itself and those before it, (L, L) bool; tokens are (..., L, D)."""
    length = tokens.shape[-2]
    return torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()


def allowed_within(segments: Tensor) -> Tensor:
    """The attention mask of packed rows: causal, and within a segment, (R, 1, L, L) bool.

    Padding counts as a segment, so that every token can attend to at least one token.
    """
    same = segments[:, :, None] == segments[:, None, :]
    return torch.tril(same)[:, None]
