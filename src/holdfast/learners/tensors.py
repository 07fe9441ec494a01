"""Named tensors, as learners keep them in snapshots."""

from torch import Tensor, nn

from holdfast.data.normaliser import Normaliser

Tensors = dict[str, Tensor]


def parameters_of(net: nn.Module) -> Tensors:
    """A network's parameters, copied to the CPU."""
    return {name: parameter.detach().cpu().clone() for name, parameter in net.named_parameters()}


def under(kind: str, tensors: Tensors) -> Tensors:
    """The tensors with the prefix `kind/` before their names, such as `net/head.weight`."""
    return {f"{kind}/{name}": tensor for name, tensor in tensors.items()}


def part(tensors: Tensors, kind: str) -> Tensors:
    """The tensors with the prefix `kind/`, which is removed from their names."""
    return {name.removeprefix(f"{kind}/"): tensor for name, tensor in tensors.items() if name.startswith(f"{kind}/")}


def normaliser_tensors(normalisers: dict[str, Normaliser]) -> Tensors:
    """Normalisers by task, as named tensors."""
    shifts = {task: normaliser.shift for task, normaliser in normalisers.items()}
    scales = {task: normaliser.scale for task, normaliser in normalisers.items()}
    return under("shift", shifts) | under("scale", scales)


def normalisers_from(tensors: Tensors) -> dict[str, Normaliser]:
    """The normalisers by task, from the tensors of `normaliser_tensors`."""
    scales = part(tensors, "scale")
    return {task: Normaliser(shift, scales[task]) for task, shift in part(tensors, "shift").items()}
