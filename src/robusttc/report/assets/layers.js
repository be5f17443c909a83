// The four layers of the matrix: what was measured, what was made of it, and what follows for all pairs.

const NOT_MEASURED = "not measured";
const LAYERS = {
  measured: {
    title: "Measured",
    sentence: "What was measured: how much better a row's task serves a column's task than others do.",
    palette: "signed", domain: [-2.5, 2.5], ends: ["helps less than others", "average", "helps more"],
    write: (value) => signed(value, 1), absent: "not measured",
  },
  verdicts: {
    title: "Verdicts",
    sentence: "What each measured pair says by its own scores: probably of one group (+), or of two (−).",
    palette: "signed", domain: [-1.4, 1.4], ends: ["− two groups", "", "+ one group"],
    write: (value, size) => (size >= 34 && Math.abs(value) < 0.95 ? signed(value, 1) : value > 0.05 ? "+" : value < -0.05 ? "−" : "0"),
    absent: "not measured",
  },
  completed: {
    title: "Completed",
    sentence: "How alike all pairs are, computed from the measured ones, also for pairs that nobody measured [cosine in the leading directions of the completed matrix X].",
    palette: "signed", domain: [-1, 1], ends: ["−1: least alike", "", "1: the same"],
    write: (value) => plain(value, 2), absent: "not known",
  },
  errors: {
    title: "Outliers",
    sentence: "Scores that contradict all the others, and how far the robust loss clipped them, in standard deviations.",
    palette: "signed", domain: [-1, 1], ends: ["seemed worse", "", "seemed better"],
    write: (value) => signed(value, 1), absent: "nothing clipped",
  },
};

// Where the pictures are read, the levels of a layer; entry(row, column) is its value, or null.
async function readLayer(name) {
  const layer = LAYERS[name];
  if (layer.levels) return layer;
  const { low, high, symmetric } = data.matrix.layers[name];
  const n = data.matrix.order.length;
  layer.value = (level) => low + ((level - 1) / 254) * (high - low);
  layer.entry = (row, column) => {
    const level = layer.levels[row * n + column];
    return level ? layer.value(level) : null;
  };
  layer.levels = await readLevels(name, symmetric);
  layer.blocks = averageBlocks(layer, n);
  return layer;
}

// The clusters as they stand in the matrix, one after the other.
const groups = data.matrix ? data.matrix.begins.map((begin, number) => {
  const end = data.matrix.begins[number + 1] ?? data.matrix.order.length;
  const cluster = tasks[data.matrix.order[begin]].cluster;
  return { begin, end, cluster, title: cluster === undefined ? "–" : String(cluster) };
}) : [];

// The mean of each block of two clusters, over the entries that are there, and how many these are.
function averageBlocks(layer, n) {
  const k = groups.length;
  const groupOf = new Uint16Array(n);
  groups.forEach(({ begin, end }, number) => groupOf.fill(number, begin, end));
  const sums = new Float64Array(k * k);
  const counts = new Uint32Array(k * k);
  for (let row = 0; row < n; row++) {
    for (let column = 0; column < n; column++) {
      const level = layer.levels[row * n + column];
      if (!level || row === column) continue;
      const block = groupOf[row] * k + groupOf[column];
      sums[block] += layer.value(level);
      counts[block]++;
    }
  }
  return { counts, mean: (row, column) => (counts[row * k + column] ? sums[row * k + column] / counts[row * k + column] : null) };
}

// An exact value where the page has it; these are lists row by row.
function exactEntry(name, row, column) {
  const lists = data.matrix.exact[name];
  if (!lists) return undefined;
  for (let place = lists.begins[row]; place < lists.begins[row + 1]; place++) {
    if (lists.columns[place] === column) return lists.values[place];
  }
  return null;
}
