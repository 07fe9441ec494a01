r"""Draws return or success against bytes against forgetting: the best setting of every learner, a panel a suite.

python docs/images/make_trade_off_figure.py \
    results/panda3 results/atari5/noop results/continualworld/cw20 docs/images/trade-off.png
"""

import sys
from pathlib import Path

from holdfast.study.figures.study import read_study
from holdfast.study.figures.suites import suites_figure

if __name__ == "__main__":
    *roots, place = sys.argv[1:]
    studies = [read_study([Path(root)]) for root in roots]
    Path(place).write_bytes(suites_figure(studies).bytes("png"))
