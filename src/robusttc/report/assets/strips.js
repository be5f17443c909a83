// Small plots of means with their 95 % intervals, as wide as there is room: places are in per cent.

const SHAPES = {
  own: "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
  shared: "M-3.2 -3.2H3.2V3.2H-3.2z",
  cluster: "M0 -4L4 3.2H-4z",
  served: "M0 -4.8L4.8 0L0 4.8L-4.8 0z",
};
const MARGIN = 3;

function placeOn(value, [low, high]) {
  const share = (Math.min(Math.max(value, low), high) - low) / (high - low);
  return (MARGIN + (100 - 2 * MARGIN) * share).toFixed(2) + "%";
}

// The accuracies of one task, a line each.
function drawStrip(accuracy, axis, height) {
  const kinds = Object.keys(MODELS).filter((kind) => accuracy && accuracy[kind]);
  if (!kinds.length) return make("span", { class: "soft" }, "no test rows");
  const said = kinds.map((kind) => `${MODELS[kind]} ${percent(accuracy[kind][0])}`).join(", ");
  const strip = make("svg", { class: "strip", role: "img", "aria-label": said, width: "100%", height: height * kinds.length });
  kinds.forEach((kind, row) => {
    const [mean, low, high] = accuracy[kind];
    const y = height * (row + 0.5);
    if (low !== null && high !== null) {
      strip.append(make("line", { class: "interval " + kind, x1: placeOn(low, axis), x2: placeOn(high, axis), y1: y, y2: y }));
    }
    const shape = make("path", { class: "shape " + kind, d: SHAPES[kind] });
    strip.append(make("svg", { x: placeOn(mean, axis), y, overflow: "visible" }, shape));
  });
  return strip;
}

// An axis in steps of a tenth, from the lowest accuracy of all tasks to one; intervals may go beyond.
const ACCURACY_AXIS = (() => {
  const means = tasks.flatMap((task) => Object.values(task.accuracy || {}).map(([mean]) => mean));
  const low = means.reduce((lowest, mean) => Math.min(lowest, mean), 0.8);
  return [Math.floor(low * 10) / 10, 1];
})();
