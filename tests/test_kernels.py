"""The GPU's kernels say what the plain code says: on a GPU where there is one, elsewhere by Triton's interpreter."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import holdfast
from holdfast.nets import encoders, norm
from holdfast.nets.encoders import PixelEncoder, _channels_last
from holdfast.nets.trunk import Trunk
from holdfast.subnets.masked import StraightThrough
from holdfast.subnets.selection import Selector, Threshold, largest

triton = pytest.importorskip("triton", reason="Triton has no wheel for this machine")

HALF = pytest.mark.skipif(not torch.cuda.is_available(), reason="Triton's interpreter does not round to bfloat16")
PRECISIONS = [torch.float32, pytest.param(torch.bfloat16, marks=HALF)]


@pytest.fixture(autouse=True)
def _all_digits() -> Iterator[None]:
    """Convolutions on a GPU with as many digits as the processor has."""
    with torch.backends.cudnn.flags(allow_tf32=False):
        yield


def draw(*shape: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """Normal numbers, the same on every device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)


def drawn_bytes(*shape: int, device: str) -> Tensor:
    """Pixels, the same on every device."""
    return torch.randint(0, 255, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0)).to(device)


def test_every_kernel_is_compared_here():
    source, here = Path(holdfast.__file__).parent, Path(__file__).read_text()
    launchers = [path for path in source.rglob("*.py") if "@triton.jit" in path.read_text()]
    assert len(launchers) >= 5
    for path in launchers:
        for name in re.findall(r"^(?:def|class) ([a-zA-Z]\w*)", path.read_text(), re.MULTILINE):
            assert re.search(rf"import .*\b{name}\b", here), f"{name} of {path.name}"


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("free", [1.0, 0.6])
@pytest.mark.parametrize("quotas", [1, 2])
def test_radix_selection_has_the_bits_of_the_reference(ties, free, quotas, kernel_device):
    from holdfast.gpu.radix import Radix

    sizes = [5000, 100, 1, 2048, 4097]
    scores = (draw(sum(sizes)) * 3).round() / 3 if ties else draw(sum(sizes))
    rng = torch.Generator().manual_seed(1)
    quota = torch.randint(1, quotas + 1, (sum(sizes),), generator=rng, dtype=torch.uint8)
    quota[torch.rand(sum(sizes), generator=rng) >= free] = 0
    counts, expected = [], torch.zeros(sum(sizes), dtype=torch.bool)
    for number in range(1, quotas + 1):
        counts.append([int(0.33 * int((piece == number).sum())) for piece in quota.split(sizes)])
        magnitudes = scores.abs().masked_fill(quota != number, -1.0).split(sizes)
        expected |= torch.cat([largest(values, k) for values, k in zip(magnitudes, counts[-1], strict=True)])
    assert torch.equal(Selector(sizes, counts).select(scores, quota), expected)
    radix = Radix(sizes, counts, torch.device(kernel_device))
    for _ in range(2):  # what it leaves behind does not matter to the next time
        assert torch.equal(radix.select(scores.to(kernel_device), quota.to(kernel_device)).cpu(), expected)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("width", [128, 100])
def test_the_norm_and_its_gradients_are_torchs(width, dtype, kernel_device):
    from holdfast.gpu.layers import norm_backward, norm_forward

    shapes = (37, width), (width,), (width,)
    tokens, weight, bias = (draw(*shape, seed=seed, device=kernel_device) for seed, shape in enumerate(shapes))
    plain = [tensor.clone().requires_grad_() for tensor in (tokens, weight, bias)]
    expected = F.layer_norm(plain[0], (width,), plain[1], plain[2], 1e-5)
    _, out, means, scales = norm_forward(tokens, weight, bias, epsilon=1e-5, dtype=dtype)
    torch.testing.assert_close(out, expected.to(dtype))
    gradient = draw(37, width, seed=3, device=kernel_device)
    found = norm_backward(gradient, tokens, weight, means, scales)[:3]
    torch.testing.assert_close(found, torch.autograd.grad(expected, plain, gradient), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_branch_joins_the_tokens_with_some_of_it_dropped_and_the_same_dropped_backward(share, kernel_device):
    from holdfast.nets.norm import FusedAddNorm

    shapes = (200, 100), (200, 100), (100,), (100,)
    parts = [draw(*shape, seed=seed, device=kernel_device) for seed, shape in enumerate(shapes)]
    tokens, branch, weight, bias = (part.requires_grad_() for part in parts)
    seed = torch.tensor([7], device=kernel_device)
    joined, out = FusedAddNorm.apply(tokens, branch, seed, share, weight, bias, torch.float32)
    kept = ((joined - tokens).abs() > 0).float().detach()
    assert abs(1 - float(kept.mean()) - share) < 0.01
    expected = tokens + branch * kept / (1 - share)
    normed = F.layer_norm(expected, (100,), weight, bias, 1e-5)
    torch.testing.assert_close((joined, out), (expected, normed))
    gradients = [draw(200, 100, seed=seed, device=kernel_device) for seed in (4, 5)]
    ours = torch.autograd.grad((joined, out), (tokens, branch, weight, bias), gradients)
    plain = torch.autograd.grad((expected, normed), (tokens, branch, weight, bias), gradients)
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)


def test_what_is_dropped_depends_on_the_seed(kernel_device):
    from holdfast.nets.norm import FusedAddNorm

    def joined(seed: int) -> Tensor:
        branch, tokens = (torch.full((50, 64), value, device=kernel_device) for value in (1.0, 0.0))
        seeded = torch.tensor([seed], device=kernel_device)
        return FusedAddNorm.apply(tokens, branch, seeded, 0.5, tokens[0], tokens[0], torch.float32)[0]

    assert torch.equal(joined(1), joined(1))
    assert not torch.equal(joined(1), joined(2))


def test_a_trunk_of_our_kernels_read_at_some_tokens_and_its_gradients_are_the_plain_one(monkeypatch, kernel_device):
    torch.manual_seed(0)
    trunk, tokens, found = Trunk(16, 2, 2, 0.0).to(kernel_device), draw(3, 12, 16, device=kernel_device), []
    for ours in (False, True):
        monkeypatch.setattr(norm, "own_kernels", lambda tensor, ours=ours: ours)
        out = trunk(tokens, read=slice(1, None, 3))
        found.append((out, *torch.autograd.grad(out.square().sum(), list(trunk.parameters()))))
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-3)


def test_a_bias_and_rectifying_in_one_launch_are_torchs(kernel_device):
    from holdfast.gpu.layers import fused_bias_relu, fused_bias_relu_backward
    from holdfast.nets.encoders import FusedBiasRelu

    frames, bias = draw(9, 32, 13, 5, device=kernel_device), draw(32, seed=1, device=kernel_device)
    frames, bias = frames.requires_grad_(), bias.requires_grad_()
    ours, plain = FusedBiasRelu.apply(frames, bias), F.relu(frames + bias[:, None, None])
    assert torch.equal(ours, plain)
    assert ours.is_contiguous(memory_format=torch.channels_last)
    hidden = torch.full((1, 32, 2, 2), torch.nan, device=kernel_device)
    assert FusedBiasRelu.apply(hidden, bias).isnan().all()  # not hidden
    gradient = draw(9, 32, 13, 5, seed=2, device=kernel_device)
    found, expected = (torch.autograd.grad(out, (frames, bias), gradient) for out in (ours, plain))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    last = gradient.permute(0, 2, 3, 1).contiguous()
    rows = fused_bias_relu(last, bias.detach())
    assert torch.equal(rows, F.relu(last + bias.detach()))
    torch.testing.assert_close(
        fused_bias_relu_backward(last, rows, torch.float32)[1], (last * (rows > 0)).sum((0, 1, 2)), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_what_a_task_sees_and_its_gradients_have_the_bits_of_the_plain_code(dtype, kernel_device):
    from holdfast.gpu.masked import masked_weights, masked_weights_backward

    frozen, free, scores, owned, chosen, gradient = (draw(3000, seed=seed, device=kernel_device) for seed in range(6))
    free, scores, occupied, mask = free.requires_grad_(), scores.requires_grad_(), owned > 0, chosen > 0.3
    expected = torch.where(occupied, frozen, free) * StraightThrough.apply(scores, mask)
    assert torch.equal(masked_weights(frozen, occupied, free.detach(), mask, dtype), expected.to(dtype))
    found = masked_weights_backward(gradient, frozen, occupied, free.detach(), scores=scores.detach(), mask=mask)
    for ours, plain in zip(found, torch.autograd.grad(expected, (free, scores), gradient), strict=True):
        assert torch.equal(ours, plain)


def test_the_kernel_of_adamw_clips_and_steps_as_torch_does(kernel_device):
    from holdfast.gpu.adamw import AdamwTensors, adamw

    parameter = torch.nn.Parameter(draw(3000, device=kernel_device))
    flat = parameter.detach().clone()
    mean, square = torch.zeros_like(flat), torch.zeros_like(flat)
    optimiser = torch.optim.AdamW([parameter], 1e-2, (0.9, 0.999), 1e-8, 0.05)
    for step in range(1, 11):
        gradient = draw(3000, seed=step, device=kernel_device)
        parameter.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_([parameter], 0.7)
        optimiser.step()
        rate, taken = (torch.tensor(value, device=kernel_device) for value in (1e-2, float(step)))
        tensors = AdamwTensors(flat, gradient, mean, square, rate=rate, taken=taken, norm=gradient.norm())
        adamw(tensors, clip=0.7, decay=0.05, betas=(0.9, 0.999), epsilon=1e-8)
    torch.testing.assert_close(flat, parameter.detach(), rtol=1e-5, atol=1e-5)


def test_stacks_are_those_of_the_plain_code_and_black_before_the_first_frame(kernel_device):
    from holdfast.gpu.frames import stacks

    frames = drawn_bytes(30, 12, 8, device=kernel_device)
    timesteps = torch.cat([torch.arange(10), torch.arange(20)]).to(kernel_device)
    index = torch.tensor([[0, 1, 2], [9, 10, 13]], device=kernel_device)
    found = stacks(frames, index, timesteps[index], 4)
    assert torch.equal(found[0, 1, 2:], frames[:2])
    assert not found[0, 1, :2].any()
    assert not found[1, 1, :3].any()  # row 10 is an episode's first
    assert torch.equal(found[1, 2], frames[10:14])


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_a_convolution_over_blocks_is_the_convolution(dtype, kernel_device):
    from holdfast.gpu.layers import blocks

    frames, kernel = drawn_bytes(3, 4, 12, 16, device=kernel_device), draw(5, 4, 8, 8, device=kernel_device)
    folded = kernel.view(5, 4, 2, 4, 2, 4).permute(0, 1, 3, 5, 2, 4).reshape(5, -1, 2, 2)
    numbers = blocks(frames, 4, dtype).float()  # every byte is a number of bfloat16
    ours = F.conv2d(numbers.permute(0, 3, 1, 2), folded / 255)
    torch.testing.assert_close(ours, F.conv2d(frames.float() / 255, kernel, stride=4), rtol=1e-4, atol=1e-4)


def test_an_encoder_made_of_our_kernels_and_its_gradients_are_the_plain_one(monkeypatch, kernel_device):
    frames = drawn_bytes(2, 3, 4, 44, 52, device=kernel_device)
    torch.manual_seed(0)
    net, found = PixelEncoder((4, 44, 52), 16).to(kernel_device), []  # 2 x 3 pixels after the convolutions
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


@pytest.mark.parametrize("second", [(40, 3), (0, 0)])
def test_a_selector_that_looks_near_the_last_threshold_has_the_bits_of_the_reference(second):
    sizes, counts = [400, 30], [(130, 5), second]
    quotas = torch.randint(0, 3, (430,), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    quotas[:150] = 1
    selector, scores = Selector(sizes, counts), draw(430)
    for step in range(30):
        expected = torch.zeros(430, dtype=torch.bool)
        for quota, ks in enumerate(counts, start=1):
            pieces = scores.abs().masked_fill(quotas != quota, -1.0).split(sizes)
            expected |= torch.cat([largest(values, k) for values, k in zip(pieces, ks, strict=True)])
        assert torch.equal(selector.select(scores, quotas), expected)
        scores = scores + draw(430, seed=step) * (1.0 if step == 15 else 0.01)  # once, all moves far
