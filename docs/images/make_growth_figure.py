"""Draws the seconds and the bytes of an agent, task by task: python docs/images/make_growth_figure.py"""

import json
from pathlib import Path

from holdfast.study.figures.drawing import WIDTH, Drawing, canvas, colour_of, styled

RECORD = Path("results/agent/growth.json")

if __name__ == "__main__":
    rows = json.loads(RECORD.read_text())["rows"]
    tasks = [row["tasks"] for row in rows]
    with styled():
        figure = canvas(WIDTH, 200)
        left, right = figure.subplots(1, 2)
        left.plot(tasks, [row["seconds"] for row in rows], color=colour_of(["a"], "a"), marker="o", ms=3)
        left.set_ylabel("seconds to learn one more task")
        right.plot(tasks, [row["weights"] / 1e6 for row in rows], color=colour_of(["a"], "a"), marker="o", ms=3)
        right.set_ylabel("MB of weights")
        for axes in (left, right):
            axes.set_xlabel("tasks in the agent")
            axes.set_ylim(bottom=0)
    drawing = Drawing("growth", "growth", "Seconds and bytes of an agent, task by task.", figure, [], [])
    Path("docs/images/agent-growth.png").write_bytes(drawing.bytes("png"))
