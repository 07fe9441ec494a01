"use strict";
// Headings of the results sort them; the second time the other way round.
const number = (cell) => parseFloat(cell.textContent.replace("\u2212", "-").replaceAll(",", ""));
function compare(a, b) {
  const [x, y] = [number(a), number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.textContent.localeCompare(b.textContent) : x - y;
}
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.ariaSort === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.ariaSort = down ? "descending" : "ascending";
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => (down ? -1 : 1) * compare(a.cells[column], b.cells[column]));
      table.tBodies[0].append(...rows);
    });
  });
}

// All videos at once; none moves unless it is asked to.
const play = document.getElementById("play");
if (play) {
  const videos = [...document.querySelectorAll("video")];
  const label = () => { play.textContent = videos.some((video) => !video.paused) ? "Pause all" : "Play all"; };
  play.hidden = false;
  play.addEventListener("click", () => {
    const stop = videos.some((video) => !video.paused);
    for (const video of videos) stop ? video.pause() : video.play();
  });
  for (const video of videos) for (const kind of ["play", "pause"]) video.addEventListener(kind, label);
}
