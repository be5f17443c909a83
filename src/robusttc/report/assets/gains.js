// What sharing gives every task, from the one that loses most to the one that gains most: all on one picture.

const GAINS = { harmed: "Harmed for sure", unclear: "No clear difference", gains: "Gains for sure" };

function startGains(place, choose) {
  const order = tasks.map((_, number) => number).filter((number) => tasks[number].gain)
    .sort((a, b) => tasks[a].gain[0] - tasks[b].gain[0]);
  if (order.length < 2) return { mark: () => {} };
  const counts = Object.keys(GAINS).map((state) => order.filter((number) => stateOf(tasks[number]) === state).length);
  const canvas = make("canvas", {
    tabindex: 0, role: "application", "aria-roledescription": "plot",
    "aria-label": `Gain of every task: ${Object.values(GAINS).map((text, number) => `${text}: ${counts[number]}`).join(", ")}. Left and right move, Enter opens.`,
  });
  const hint = "Each mark is a task: its served model over its own, in points, with the 95 % interval. Point at one or tap it to see its name.";
  const said = make("p", { class: "said soft", "aria-live": "polite" }, hint);
  const key = make("ul", { class: "legend" }, ...Object.entries(GAINS).map(([state, text], number) => {
    const sign = { harmed: "▼", unclear: "○", gains: "▲" }[state];
    return make("li", null, `${sign} ${text}: ${count(counts[number])}`);
  }));
  place.append(make("div", { class: "gains-plot" }, make("h3", null, "What sharing gives each task"), key, canvas, said));

  let current = -1;
  let isMarked = () => true;
  // Ends of the axis: nearly all intervals, so that a few wild tasks do not flatten the others.
  const end = (part, share) => {
    const found = order.map((number) => tasks[number].gain[part] ?? tasks[number].gain[0]).sort((a, b) => a - b);
    return found[Math.round(share * (found.length - 1))];
  };
  const [low, high] = [Math.min(-0.02, end(1, 0.01) - 0.005), Math.max(0.02, end(2, 0.99) + 0.005)];

  function draw() {
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    const dots = window.devicePixelRatio || 1;
    canvas.width = width * dots;
    canvas.height = height * dots;
    const pen = canvas.getContext("2d");
    pen.scale(dots, dots);
    const y = (gain) => 8 + (height - 16) * (1 - (Math.min(Math.max(gain, low), high) - low) / (high - low));
    drawLines(pen, width, y);
    const paints = { harmed: colour("doubt"), unclear: colour("soft"), gains: colour("served") };
    order.forEach((number, rank) => drawTask(pen, number, xOf(rank), y, paints));
    if (current >= 0) {
      pen.strokeStyle = colour("ink");
      pen.lineWidth = 1.5;
      pen.strokeRect(xOf(current) - 6, y(tasks[order[current]].gain[0]) - 6, 12, 12);
    }
  }

  const LEFT = 44;
  const xOf = (rank) => LEFT + 8 + ((canvas.clientWidth - LEFT - 16) * (rank + 0.5)) / order.length;
  const rankAt = (x) => Math.min(Math.max(Math.floor(((x - LEFT - 8) / (canvas.clientWidth - LEFT - 16)) * order.length), 0), order.length - 1);

  function drawLines(pen, width, y) {
    const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((size) => (high - low) / size <= 6) || 1;
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let line = Math.ceil(low / step); line * step <= high; line++) {
      pen.fillStyle = colour("soft");
      pen.fillText(signed(100 * line * step, 0), LEFT - 8, y(line * step));
      pen.fillStyle = colour(line === 0 ? "soft" : "line");
      pen.fillRect(LEFT, y(line * step), width - LEFT, line === 0 ? 1.5 : 1);
    }
  }

  function drawTask(pen, number, x, y, paints) {
    const task = tasks[number];
    const state = stateOf(task);
    pen.globalAlpha = isMarked(number) ? 1 : 0.12;
    pen.strokeStyle = pen.fillStyle = paints[state];
    const crowded = canvas.clientWidth / order.length < 6;
    if (task.gain[1] !== null && task.gain[2] !== null) {
      pen.lineWidth = crowded ? 0.6 : 1.6;
      pen.globalAlpha *= crowded ? 0.35 : 0.55;
      pen.beginPath();
      pen.moveTo(x, y(task.gain[1]));
      pen.lineTo(x, y(task.gain[2]));
      pen.stroke();
      pen.globalAlpha = isMarked(number) ? 1 : 0.12;
    }
    const size = crowded ? 1.6 : 4.2;
    const at = y(task.gain[0]);
    pen.beginPath();
    if (state === "unclear") pen.arc(x, at, size * 0.9, 0, 7);
    else {
      const up = state === "gains" ? -1 : 1;
      pen.moveTo(x - size, at - up * size * 0.7);
      pen.lineTo(x + size, at - up * size * 0.7);
      pen.lineTo(x, at + up * size);
      pen.closePath();
    }
    pen.lineWidth = 1.4;
    if (state === "unclear" && !crowded) pen.stroke();
    else pen.fill();
    pen.globalAlpha = 1;
  }

  function point(rank) {
    current = rank;
    draw();
    if (rank < 0) {
      said.replaceChildren(hint);
      return;
    }
    const task = tasks[order[rank]];
    said.replaceChildren(link(order[rank]), ` ${points(task.gain[0])} points ${range(task.gain, points)}, ${clusterOf(task.cluster)}`);
  }

  canvas.addEventListener("pointermove", (event) => point(rankAt(event.offsetX)));
  canvas.addEventListener("pointerdown", (event) => point(rankAt(event.offsetX)));
  // A finger covers many tasks: it points, and the name under the picture opens.
  canvas.addEventListener("pointerup", (event) => event.pointerType === "mouse" && choose(order[current]));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
    if (step) point(Math.min(Math.max(current + step, 0), order.length - 1));
    else if (event.key === "Enter" && current >= 0) choose(order[current]);
    else return;
    event.preventDefault();
  });
  new ResizeObserver(draw).observe(canvas);
  listen("theme", draw);
  return { mark: (test) => { isMarked = test; draw(); } };
}
