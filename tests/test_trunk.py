"""A trunk computes what is read of it, and dropout drops the share that it is told to."""

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from holdfast.nets.dropout import dropout
from holdfast.nets.trunk import Trunk, allowed_within, attend

LENGTH = 12
STATES = slice(1, None, 3)
READ = pytest.mark.parametrize("read", [STATES, slice(-1, None), torch.tensor([7])], ids=["states", "last", "position"])
PACKED = pytest.mark.parametrize("packed", [False, True])


def made(layers: int = 2, share: float = 0.0) -> tuple[Trunk, Tensor]:
    """A trunk with random parameters and some tokens, in double precision."""
    torch.manual_seed(0)
    trunk = Trunk(8, layers, 2, share).double()
    for parameter in trunk.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return trunk, torch.randn(3, LENGTH, 8, dtype=torch.float64)


def mask(packed: bool) -> Tensor | None:
    """What may be attended to where windows share a row; None where each has its own."""
    segments = torch.tensor([[0] * 6 + [1] * 3 + [-1] * 3, [0] * LENGTH, [0] * 3 + [1] * 9])
    return allowed_within(segments) if packed else None


@READ
@PACKED
@pytest.mark.parametrize("layers", [1, 3])
def test_a_trunk_read_at_some_tokens_is_the_whole_trunk_at_these_and_so_are_its_gradients(read, packed, layers):
    trunk, tokens = made(layers)
    inputs = [tokens.requires_grad_(), *trunk.parameters()]
    part, whole = trunk(tokens, mask(packed), read=read), trunk(tokens, mask(packed))[:, read]
    torch.testing.assert_close(part, whole)
    weights = torch.randn_like(part)
    found, expected = (torch.autograd.grad((out * weights).sum(), inputs) for out in (part, whole))
    torch.testing.assert_close(found, expected)


@READ
@PACKED
def test_several_trunks_are_read_at_some_tokens_in_one_pass(read, packed):
    trunk, tokens = made()
    others = [{name: scale * value.detach() for name, value in trunk.named_parameters()} for scale in (1.0, 1.1)]
    stacked = {name: torch.stack([other[name] for other in others]) for name in others[0]}
    with sdpa_kernel(SDPBackend.MATH):  # as routing has it
        together = vmap(lambda values: functional_call(trunk, values, (tokens, mask(packed), read)))(stacked)
    for own, values in zip(together, others, strict=True):
        torch.testing.assert_close(own, functional_call(trunk, values, (tokens, mask(packed)))[:, read])


def test_the_last_block_computes_only_the_tokens_that_are_read():
    trunk, tokens = made(3)
    lengths: list[int] = []
    for block in trunk.blocks:
        block.wide.register_forward_hook(lambda module, given, out: lengths.append(out.shape[1]))
    trunk(tokens, read=STATES)
    assert lengths == [LENGTH, LENGTH, LENGTH // 3]


@PACKED
def test_attention_that_drops_next_to_nothing_is_torchs(packed):
    queries, keys, values = torch.randn(3, 3, 2, LENGTH, 4, dtype=torch.float64).unbind()
    found, expected = (attend(queries, keys, values, mask(packed), share) for share in (1e-9, 0.0))
    torch.testing.assert_close(found, expected)


@PACKED
def test_attention_in_training_drops_weights_and_scales_the_others(packed):
    trunk, tokens = made(1, 0.3)
    attention, allowed = trunk.blocks[0].attention, mask(packed)
    plain = attention.eval()(tokens, allowed)
    attention.train()
    dropped = torch.stack([attention(tokens, allowed) for _ in range(3000)])
    assert not torch.allclose(dropped[0], dropped[1])
    deviation = dropped.std(0) / 3000**0.5
    assert ((dropped.mean(0) - plain).abs() < 5 * deviation + 1e-9).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("count", [400_000, 399_997])
def test_dropout_zeroes_its_share_and_scales_the_others_so_that_the_mean_stays(share, count):
    torch.manual_seed(0)
    values = torch.ones(count, requires_grad=True)
    out = dropout(values, share, True)
    assert abs(float((out == 0).float().mean()) - share) < 5 * (share * (1 - share) / count) ** 0.5
    level = round(share * 65_536) / 65_536
    assert set(out.detach().unique().tolist()) == {0.0, float(torch.tensor(1 / (1 - level)))}
    (gradient,) = torch.autograd.grad(out.sum(), values)
    assert torch.equal(gradient, out)


def test_what_is_dropped_follows_from_the_seed_alone_and_differs_from_draw_to_draw():
    values, drawn = torch.ones(3, 5, 7), []
    for _ in range(2):
        torch.manual_seed(7)
        drawn.append([dropout(values, 0.5, True) for _ in range(2)])
    assert all(torch.equal(*pair) for pair in zip(*drawn, strict=True))
    assert not torch.equal(*drawn[0])


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    dropped = (dropout(torch.ones(400_000), 0.5, True) == 0).float()
    for distance in range(1, 9):  # also those that come from the same random number
        both = float((dropped[distance:] * dropped[:-distance]).mean())
        assert abs(both - 0.25) < 0.004


def test_nothing_is_dropped_outside_training_or_at_a_share_of_zero_and_never_all():
    values = torch.ones(1000)
    assert dropout(values, 0.5, False) is values
    assert dropout(values, 0.0, True) is values
    assert dropout(torch.ones(2_000_000), 1 - 1e-9, True).isfinite().all()
