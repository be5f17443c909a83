// Who helps whom: blocks of clusters first where there are many tasks, then the tasks of two of them.

const MANY_TASKS = 60;

function startMatrix() {
  const place = document.getElementById("matrix-view");
  if (!place || !data.matrix) return Promise.resolve();
  if (typeof DecompressionStream === "undefined") {
    place.append(make("p", { class: "note doubt" }, "This browser is too old to draw the matrix; all else is there."));
    return Promise.resolve();
  }
  const n = data.matrix.order.length;
  const hasBlocks = groups.length > 1;
  // The layer and what is shown of it: "blocks", "all", or the two clusters [from, to].
  const state = { layer: "measured", view: hasBlocks && n > MANY_TASKS ? "blocks" : "all" };

  const sentence = make("p", { class: "soft" });
  const canvas = make("canvas", {
    class: "matrix-canvas", tabindex: 0, role: "application", "aria-roledescription": "matrix",
    "aria-label": "Matrix of tasks: arrow keys move, plus and minus zoom, 0 shows all, Enter opens, Escape goes back",
  });
  const readout = make("div", { class: "readout" });
  const spoken = make("p", { class: "unseen", "aria-live": "polite" });
  const scale = make("div", { class: "scale" });
  const grid = new Grid(canvas, { hover: showCell, choose: openCell });
  const layerChoice = choices("What to show", "layer", Object.entries(LAYERS).map(([key, { title }]) => [key, title]), state.layer, (key) => change({ layer: key }));
  const views = hasBlocks ? [["blocks", "By cluster"], ["all", "Every task"]] : [["all", "Every task"]];
  const viewChoice = choices("How much to show", "view", views, state.view, (key) => change({ view: key }));
  const back = make("button", { type: "button", hidden: true, onclick: () => change({ view: "blocks" }) }, "← All clusters");
  const shown = make("span", { class: "soft", "aria-live": "polite" });
  const tool = (text, label, act) => make("button", { type: "button", "aria-label": label, onclick: act }, text);

  place.append(
    make("div", { class: "matrix-bar" }, layerChoice.group, make("span", { class: "spring" }), hasBlocks ? viewChoice.group : null),
    sentence,
    make("div", { class: "matrix-body" },
      make("div", null,
        make("div", { class: "matrix-tools" },
          tool("+", "Zoom in", () => grid.zoomBy(1.6)), tool("−", "Zoom out", () => grid.zoomBy(1 / 1.6)),
          tool("Fit", "Show all", () => grid.fit()), back, shown),
        canvas),
      make("div", { class: "matrix-side" }, readout, scale, spoken,
        make("p", null, make("small", null, "Rows give, columns receive. Click to hold a cell; then the wheel zooms, and dragging moves. Two fingers zoom.")))),
  );
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && Array.isArray(state.view)) change({ view: "blocks" });
  });
  listen("theme", () => redraw());
  listen("cluster", (cluster) => {
    const number = groups.findIndex((group) => group.cluster === cluster);
    change({ view: cluster === null || number < 0 ? (hasBlocks && n > MANY_TASKS ? "blocks" : "all") : [number, number] });
  });

  async function change(what) {
    Object.assign(state, what);
    await readLayer(state.layer);
    if (!Array.isArray(state.view)) viewChoice.set(state.view);
    sentence.textContent = LAYERS[state.layer].sentence;
    back.hidden = !Array.isArray(state.view) || !hasBlocks;
    shown.textContent = describeView();
    if (what.layer && grid.model) redraw();
    else {
      grid.show(makeModel());
      showScale();
      showHint();
    }
  }

  // The same view in other colours: zoom, place and the chosen cell stay.
  function redraw() {
    if (!grid.model) return;
    grid.model = makeModel();
    showScale();
    grid.draw();
    if (grid.cell) showCell(grid.cell, false);
  }

  function describeView() {
    if (state.view === "blocks") return `${count(groups.length)} × ${count(groups.length)} blocks; a click shows their tasks.`;
    if (state.view === "all") return data.matrix.left_out ? `${tasksOf(n)}, evenly chosen; ${count(data.matrix.left_out)} more are not drawn.` : `${tasksOf(n)}.`;
    const [from, to] = state.view.map((number) => groups[number]);
    return from === to ? `Within ${clusterOf(from.cluster)}.` : `From ${clusterOf(from.cluster)} to ${clusterOf(to.cluster)}.`;
  }

  function makeModel() {
    const layer = LAYERS[state.layer];
    if (state.view === "blocks") return modelOfBlocks(layer);
    const [from, to] = state.view === "all" ? [{ begin: 0, end: n }, { begin: 0, end: n }] : state.view.map((number) => groups[number]);
    return modelOfTasks(layer, from, to);
  }

  function paint(rows, columns, levelColour) {
    const image = make("canvas", { width: columns, height: rows });
    const pen = image.getContext("2d");
    const pixels = pen.createImageData(columns, rows);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) levelColour(row, column, pixels.data, 4 * (row * columns + column));
    }
    pen.putImageData(pixels, 0, 0);
    return image;
  }

  const shade = (layer, value) => along(layer.palette, (value - layer.domain[0]) / (layer.domain[1] - layer.domain[0]));

  function modelOfBlocks(layer) {
    const k = groups.length;
    const bands = groups.map(({ title }, number) => ({ begin: number, end: number + 1, title }));
    const image = paint(k, k, (row, column, pixels, at) => {
      const mean = layer.blocks.mean(row, column);
      if (mean !== null) pixels.set([...shade(layer, mean), 255], at);
    });
    const text = (row, column, size) => {
      const mean = layer.blocks.mean(row, column);
      return mean === null || size < 30 ? null : { text: layer.write(mean, size), colour: shade(layer, mean) };
    };
    return { rows: k, columns: k, image, text, names: null, largest: 110, rowGroups: bands, columnGroups: bands };
  }

  function modelOfTasks(layer, from, to) {
    const table = coloursOfLevels(layer);
    const [rows, columns] = [from.end - from.begin, to.end - to.begin];
    const image = paint(rows, columns, (row, column, pixels, at) => {
      const level = 4 * layer.levels[(from.begin + row) * n + to.begin + column];
      for (let part = 0; part < 4; part++) pixels[at + part] = table[level + part];
    });
    const text = (row, column, size) => {
      const value = layer.entry(from.begin + row, to.begin + column);
      const isSign = state.layer === "verdicts";
      return value === null || (size < 30 && !isSign) ? null : { text: layer.write(value, size), colour: shade(layer, value) };
    };
    const bandsOf = (part) => groups.filter(({ begin, end }) => begin < part.end && end > part.begin)
      .map(({ begin, end, title }) => ({ begin: begin - part.begin, end: end - part.begin, title }));
    const name = (part) => (number) => tasks[data.matrix.order[part.begin + number]].name;
    const pen = image.getContext("2d");
    pen.font = "12px system-ui, sans-serif";
    const longest = 12 + Math.max(...data.matrix.order.map((task) => pen.measureText(tasks[task].name.slice(0, 40)).width));
    return { rows, columns, image, text, largest: 52, names: { row: name(from), column: name(to), longest }, rowGroups: bandsOf(from), columnGroups: bandsOf(to), from, to };
  }

  function showScale() {
    const layer = LAYERS[state.layer];
    const ramp = paint(1, 200, (_row, column, pixels, at) => pixels.set([...along(layer.palette, column / 199), 255], at));
    const none = make("canvas", { width: 22, height: 14 });
    const pen = none.getContext("2d");
    pen.fillStyle = hatch(pen);
    pen.fillRect(0, 0, 22, 14);
    scale.replaceChildren(
      ramp, make("div", { class: "ends" }, ...layer.ends.map((text) => make("span", null, text))),
      make("div", { class: "absent" }, none, layer.absent),
    );
  }

  function showHint() {
    readout.replaceChildren(make("p", { class: "soft" }, state.view === "blocks"
      ? "Point at a block or tap it to see two clusters, and open it to see their tasks."
      : "Point at a cell or tap it to see two tasks and what is known about them."));
  }

  function openCell({ row, column }) {
    if (state.view === "blocks") change({ view: [row, column] });
  }

  function showCell({ row, column }, byKeys) {
    if (state.view === "blocks") showBlock(row, column);
    else showPair(grid.model.from.begin + row, grid.model.to.begin + column);
    if (byKeys) spoken.textContent = readout.textContent;
  }

  const fact = (title, text) => [make("dt", null, title), make("dd", null, text)];

  function showBlock(row, column) {
    const [from, to] = [groups[row], groups[column]];
    const facts = [];
    for (const [key, layer] of Object.entries(LAYERS)) {
      if (!layer.blocks) continue;
      const mean = layer.blocks.mean(row, column);
      const of = key === "completed" || mean === null ? "" : ` (${count(layer.blocks.counts[row * groups.length + column])} entries)`;
      facts.push(...fact(layer.title, mean === null ? layer.absent : (key === "completed" ? plain(mean, 2) : signed(mean, 2)) + of));
    }
    const who = (group) => make("b", null, `${clusterOf(group.cluster)}, ${tasksOf(group.end - group.begin)}`);
    readout.replaceChildren(
      make("div", { class: "ends-of-pair" }, make("span", { class: "soft" }, "From"), who(from), make("span", { class: "soft" }, "to"), who(to)),
      make("p", { class: "soft" }, make("small", null, "Means over the pairs of tasks")),
      make("dl", null, ...facts),
      make("button", { type: "button", onclick: () => change({ view: [row, column] }) }, "Show these tasks"),
    );
  }

  function showPair(row, column) {
    const [from, to] = [data.matrix.order[row], data.matrix.order[column]];
    const who = (task) => make("span", null, link(task), make("small", null, ` ${clusterOf(tasks[task].cluster)}`));
    const facts = [];
    if (LAYERS.measured.levels) facts.push(...fact("Measured", sayMeasured(row, column)));
    if (LAYERS.verdicts.levels) {
      const verdict = LAYERS.verdicts.entry(row, column);
      facts.push(...fact("By its scores", verdict === null ? LAYERS.verdicts.absent : `${Math.round(50 * (verdict + 1))} % one group`));
    }
    if (LAYERS.completed.levels) {
      const value = LAYERS.completed.entry(row, column);
      facts.push(...fact("Similarity", value === null ? LAYERS.completed.absent : `about ${signed(value, 2)}, from −1 to 1`));
    }
    if (LAYERS.errors.levels) {
      const exact = exactEntry("errors", row, column);
      const value = exact === undefined ? LAYERS.errors.entry(row, column) : exact;
      facts.push(...fact("Outlier", value === null ? "no" : `by ${exact === undefined ? "about " : ""}${signed(value, 2)}`));
    }
    readout.replaceChildren(
      make("div", { class: "ends-of-pair" }, make("span", { class: "soft" }, "From"), who(from), make("span", { class: "soft" }, "to"), who(to)),
      make("dl", null, ...facts),
    );
  }

  function sayMeasured(row, column) {
    const value = LAYERS.measured.entry(row, column);
    if (row === column) return "the task itself";
    if (value === null) return NOT_MEASURED;
    const raw = exactEntry("raw", row, column);
    const kind = data.kind ? ` (${data.kind.replaceAll("_", " ")})` : "";
    const score = raw === undefined || raw === null ? "" : `${raw.toLocaleString("en-GB", { maximumSignificantDigits: 4 }).replace("-", "−")}${kind}, `;
    return `${score}${score ? "" : "about "}${signed(value, 1)} standard deviations from what others give this task`;
  }

  return change({}).then(() => {
    // The other layers are read once the page stands, for the readout.
    setTimeout(async () => {
      for (const name of Object.keys(LAYERS)) await readLayer(name);
      document.documentElement.dataset.whole = "true";
    }, 50);
  });
}
