r"""Draws return or success against bytes against forgetting: the best setting of every learner, a panel a suite.

Each suite is a folder, or several with commas between them.

python docs/images/make_trade_off_figure.py \
    results/panda3,results/reuse/panda results/atari5/noop,results/reuse/atari \
    results/continualworld/cw20,results/reuse/cw20 docs/images/trade-off.png
"""

import sys
from pathlib import Path

from holdfast.study.figures.study import read_study
from holdfast.study.figures.suites import suites_figure

if __name__ == "__main__":
    *roots, place = sys.argv[1:]
    studies = [read_study([Path(folder) for folder in root.split(",")]) for root in roots]
    Path(place).write_bytes(suites_figure(studies).bytes("png"))
