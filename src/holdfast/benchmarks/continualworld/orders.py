"""The tasks of Meta-World, in the orders of Continual World."""

CW10 = (
    "hammer",
    "push-wall",
    "faucet-close",
    "push-back",
    "stick-pull",
    "handle-press-side",
    "push",
    "shelf-place",
    "window-close",
    "peg-unplug-side",
)
OTHERS = (  # in Meta-World's own order
    "assembly",
    "basketball",
    "bin-picking",
    "box-close",
    "button-press-topdown",
    "button-press-topdown-wall",
    "button-press",
    "button-press-wall",
    "coffee-button",
    "coffee-pull",
    "coffee-push",
    "dial-turn",
    "disassemble",
    "door-close",
    "door-lock",
    "door-open",
    "door-unlock",
    "hand-insert",
    "drawer-close",
    "drawer-open",
    "faucet-open",
    "handle-press",
    "handle-pull-side",
    "handle-pull",
    "lever-pull",
    "pick-place-wall",
    "pick-out-of-hole",
    "pick-place",
    "plate-slide",
    "plate-slide-side",
    "plate-slide-back",
    "plate-slide-back-side",
    "peg-insert-side",
    "soccer",
    "stick-push",
    "reach",
    "reach-wall",
    "sweep-into",
    "sweep",
    "window-open",
)
MT50 = CW10 + OTHERS
AGAIN = "-2"  # ends the name of a task that is learned for the second time
CW20 = CW10 + tuple(f"{name}{AGAIN}" for name in CW10)


def simulated(task: str) -> str:
    """The name of the task in Meta-World, also when it is learned for the second time."""
    return task.removesuffix(AGAIN)
