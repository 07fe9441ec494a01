"""The GPU's kernels, run by Triton's interpreter, say what the plain code says."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from holdfast.nets import encoders, norm
from holdfast.nets.encoders import PixelEncoder, _channels_last
from holdfast.subnets.masked import StraightThrough
from holdfast.subnets.selection import Selector, Threshold, largest

triton = pytest.importorskip("triton", reason="Triton has no wheel for this machine")


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("free", [1.0, 0.6])
def test_radix_selection_has_the_bits_of_the_reference(ties, free):
    from holdfast.subnets.radix import Radix

    sizes = [5000, 100, 1, 2048, 4097]
    scores = (draw(sum(sizes)) * 3).round() / 3 if ties else draw(sum(sizes))
    feasible = torch.rand(sum(sizes), generator=torch.Generator().manual_seed(1)) < free
    counts = [int(0.33 * int(piece.sum())) for piece in feasible.split(sizes)]
    magnitudes = scores.abs().masked_fill(~feasible, -1.0).split(sizes)
    expected = torch.cat([largest(values, k) for values, k in zip(magnitudes, counts, strict=True)])
    radix = Radix(sizes, counts, torch.device("cpu"))
    for _ in range(2):  # what it leaves behind does not matter to the next time
        assert torch.equal(radix.select(scores, feasible), expected)


@pytest.mark.parametrize("width", [128, 100])
def test_the_norm_and_its_gradients_are_torchs(width):
    from holdfast.nets.kernels import norm_backward, norm_forward

    tokens, weight, bias = (tensor.requires_grad_() for tensor in (draw(37, width), draw(width), draw(width, seed=1)))
    expected = F.layer_norm(tokens, (width,), weight, bias, 1e-5)
    gradient = draw(37, width, seed=2)
    tokens_, weight_, bias_ = (tensor.detach() for tensor in (tokens, weight, bias))
    _, out, means, scales = norm_forward(tokens_, weight_, bias_, 1e-5, torch.float32)
    torch.testing.assert_close(out, expected)
    found = norm_backward(gradient, tokens_, weight_, means, scales)[:3]
    torch.testing.assert_close(found, torch.autograd.grad(expected, (tokens, weight, bias), gradient))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_branch_joins_the_tokens_with_some_of_it_dropped_and_the_same_dropped_backward(share):
    from holdfast.nets.norm import Joined

    parts = draw(600, 100), draw(600, 100, seed=1), draw(100, seed=2), draw(100, seed=3)
    tokens, branch, weight, bias = (part.requires_grad_() for part in parts)
    joined, out = Joined.apply(tokens, branch, torch.tensor([7]), share, weight, bias, torch.float32)
    kept = ((joined - tokens).abs() > 0).float().detach()
    assert abs(1 - float(kept.mean()) - share) < 0.01
    expected = tokens + branch * kept / (1 - share)
    normed = F.layer_norm(expected, (100,), weight, bias, 1e-5)
    torch.testing.assert_close((joined, out), (expected, normed))
    gradients = draw(600, 100, seed=4), draw(600, 100, seed=5)
    ours = torch.autograd.grad((joined, out), (tokens, branch, weight, bias), gradients)
    plain = torch.autograd.grad((expected, normed), (tokens, branch, weight, bias), gradients)
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)


def test_what_is_dropped_depends_on_the_seed():
    from holdfast.nets.norm import Joined

    def joined(seed):
        branch, zeros = torch.ones(50, 64), torch.zeros(64)
        return Joined.apply(torch.zeros(50, 64), branch, torch.tensor([seed]), 0.5, zeros, zeros, torch.float32)[0]

    assert torch.equal(joined(1), joined(1))
    assert not torch.equal(joined(1), joined(2))


def test_a_bias_and_rectifying_in_one_launch_are_torchs():
    from holdfast.nets.encoders import Rectified

    frames, bias = draw(9, 32, 13, 5).requires_grad_(), draw(32, seed=1).requires_grad_()
    ours, plain = Rectified.apply(frames, bias), F.relu(frames + bias[:, None, None])
    assert torch.equal(ours, plain)
    assert ours.is_contiguous(memory_format=torch.channels_last)
    assert Rectified.apply(torch.full((1, 32, 2, 2), torch.nan), bias).isnan().all()  # not hidden
    gradient = draw(9, 32, 13, 5, seed=2)
    found, expected = (torch.autograd.grad(out, (frames, bias), gradient) for out in (ours, plain))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_what_a_task_sees_and_its_gradients_have_the_bits_of_the_plain_code():
    from holdfast.subnets.kernels import moved, seen

    frozen, free, scores = draw(3000), draw(3000, seed=1).requires_grad_(), draw(3000, seed=2).requires_grad_()
    occupied, mask = draw(3000, seed=3) > 0, draw(3000, seed=4) > 0.3
    expected = torch.where(occupied, frozen, free) * StraightThrough.apply(scores, mask)
    gradient = draw(3000, seed=5)
    assert torch.equal(seen(frozen, occupied, free.detach(), mask, torch.float32), expected)
    found = moved(gradient, frozen, occupied, free.detach(), scores.detach(), mask)
    for ours, plain in zip(found, torch.autograd.grad(expected, (free, scores), gradient), strict=True):
        assert torch.equal(ours, plain)


def test_flat_adamw_is_torchs():
    from holdfast.learners.kernels import adamw

    parameter = torch.nn.Parameter(draw(3000))
    flat, mean, square = parameter.detach().clone(), torch.zeros(3000), torch.zeros(3000)
    optimiser = torch.optim.AdamW([parameter], 1e-2, (0.9, 0.999), 1e-8, 0.05)
    for step in range(1, 11):
        gradient = draw(3000, seed=step)
        parameter.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_([parameter], 0.7)
        optimiser.step()
        norm, rate, taken = gradient.norm(), torch.tensor(1e-2), torch.tensor(float(step))
        adamw(flat, gradient, mean, square, rate, taken, norm, 0.7, 0.05, (0.9, 0.999), 1e-8)
    torch.testing.assert_close(flat, parameter.detach(), rtol=1e-5, atol=1e-5)


def test_stacks_are_those_of_the_plain_code_and_black_before_the_first_frame():
    from holdfast.data.kernels import stacks

    frames = torch.randint(0, 255, (30, 12, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    timesteps = torch.cat([torch.arange(10), torch.arange(20)])
    index = torch.tensor([[0, 1, 2], [9, 10, 13]])
    found = stacks(frames, index, timesteps[index], 4)
    assert torch.equal(found[0, 1, 2:], frames[:2])
    assert not found[0, 1, :2].any()
    assert not found[1, 1, :3].any()  # row 10 is an episode's first
    assert torch.equal(found[1, 2], frames[10:14])


def test_a_convolution_over_blocks_is_the_convolution():
    from holdfast.nets.kernels import blocks

    frames = torch.randint(0, 255, (3, 4, 12, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    kernel = draw(5, 4, 8, 8)
    folded = kernel.view(5, 4, 2, 4, 2, 4).permute(0, 1, 3, 5, 2, 4).reshape(5, -1, 2, 2)
    ours = F.conv2d(blocks(frames, 4, torch.float32).permute(0, 3, 1, 2), folded / 255)
    torch.testing.assert_close(ours, F.conv2d(frames.float() / 255, kernel, stride=4), rtol=1e-4, atol=1e-4)


def test_an_encoder_made_of_our_kernels_and_its_gradients_are_the_plain_one(monkeypatch):
    frames = torch.randint(0, 255, (2, 3, 4, 44, 52), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    net, found = PixelEncoder((4, 44, 52), 16), []  # 2 x 3 pixels after the convolutions
    for ours in (False, True):
        for module in (encoders, norm):
            monkeypatch.setattr(module, "own_kernels", lambda tensor, ours=ours: ours)
        out = net(frames)
        found.append((out, *torch.autograd.grad(out.square().sum(), list(net.parameters()))))
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-3)


def test_a_kernel_is_laid_out_channels_last_also_in_many_networks_at_once():
    kernels = draw(3, 5, 4, 2, 2)
    for found, kernel in zip(torch.func.vmap(_channels_last)(kernels), kernels, strict=True):
        assert torch.equal(found, kernel)
    assert _channels_last(kernels[0]).is_contiguous(memory_format=torch.channels_last)


def test_exactly_k_are_kept_where_the_bound_of_what_is_near_is_rounded_up():
    threshold = Threshold(15)
    reaches = np.arange(1, 1000, dtype=np.float32) * np.float32(1.1e-5)
    last = np.float32(2)
    threshold.last, threshold.reach = last, next(reach for reach in reaches if (last + reach) - last > reach)
    at_the_bound = np.full(10, last + threshold.reach, np.float32)
    near = last - np.arange(40, dtype=np.float32) * threshold.reach / 100
    mask = threshold.mask(torch.from_numpy(np.concatenate([at_the_bound, near, np.ones(50, np.float32)])))
    assert mask.nonzero().flatten().tolist() == list(range(15))


def test_a_selector_that_looks_near_the_last_threshold_has_the_bits_of_the_reference():
    sizes, counts = [400, 30], [130, 10]
    selector, scores, feasible = Selector(sizes, counts), draw(430), torch.ones(430, dtype=torch.bool)
    for step in range(30):
        mask = selector.select(scores, feasible)
        pieces = zip(scores.abs().split(sizes), counts, strict=True)
        assert torch.equal(mask, torch.cat([largest(values, k) for values, k in pieces]))
        scores = scores + draw(430, seed=step) * (1.0 if step == 15 else 0.01)  # once, all moves far
