r"""Draws return or success against bytes against forgetting: every learner and the default preset, a panel a suite.

Each panel is a folder, or several with commas between them, of one suite with one amount of data. Of each learner the
best setting is drawn, the default preset with a star wherever there is a record of it, and what no setting beats.

python docs/images/make_trade_off_figure.py \
    results/panda3,results/reuse/panda results/reuse/panda-few results/atari5/noop,results/reuse/atari \
    results/continualworld/cw20,results/reuse/cw20 results/continualworld/few,results/reuse/one-step-h200 \
    results/reuse/cw20-few docs/images/trade-off.png
"""

import sys
from pathlib import Path

from holdfast.study.figures.study import read_study
from holdfast.study.figures.suites import suites_figure

if __name__ == "__main__":
    *roots, place = sys.argv[1:]
    studies = [read_study([Path(folder) for folder in root.split(",")]) for root in roots]
    Path(place).write_bytes(suites_figure(studies).bytes("png"))
