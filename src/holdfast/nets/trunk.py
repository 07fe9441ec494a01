"""A causal transformer: tokens in, tokens out (pre-LN, GELU, no biases)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.nets.norm import Norm


class Attention(nn.Module):
    """Causal self-attention; with a mask, among the tokens the mask allows."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.mix = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, tokens: Tensor, allowed: Tensor | None) -> Tensor:
        mixed = self.mix(tokens).unflatten(-1, (3, self.heads, -1))  # (B, L, 3, H, D/H)
        queries, keys, values = mixed.permute(2, 0, 3, 1, 4)  # (B, H, L, D/H) each
        dropout = self.dropout if self.training else 0.0
        seen = F.scaled_dot_product_attention(queries, keys, values, allowed, dropout, is_causal=allowed is None)
        return self.output(seen.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention, then a layer four times as wide, each added to what came in."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm, self.wide_norm = (Norm(width, before_product=True) for _ in range(2))
        self.attention = Attention(width, heads, dropout)
        self.wide = nn.Sequential(
            nn.Linear(width, 4 * width, bias=False), nn.GELU(), nn.Linear(4 * width, width, bias=False)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, allowed: Tensor | None) -> Tensor:
        tokens = tokens + self.dropout(self.attention(self.attention_norm(tokens), allowed))
        return tokens + self.dropout(self.wide(self.wide_norm(tokens)))


class Trunk(nn.Module):
    """The blocks, with a norm before and after."""

    def __init__(self, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.first_norm, self.last_norm = Norm(width), Norm(width, before_product=True)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))

    def forward(self, tokens: Tensor, allowed: Tensor | None = None) -> Tensor:
        tokens = self.dropout(self.first_norm(tokens))
        for block in self.blocks:
            tokens = block(tokens, allowed)
        return self.last_norm(tokens)


def allowed_within(segments: Tensor) -> Tensor:
    """Which tokens may look at which: those before them in their own segment, (R, 1, L, L) bool.

    Padding is a segment like any other, so that no token is left without a token to look at.
    """
    same = segments[:, :, None] == segments[:, None, :]
    return torch.tril(same)[:, None]
