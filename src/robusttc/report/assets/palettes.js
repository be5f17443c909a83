// Colours of the matrices. Blue against orange is told apart by every kind of colour vision; the more a colour
// differs from the paper, the stronger what it says.

const STOPS = {
  signed: {
    light: ["#8a3b00", "#d9751a", "#f3b778", "#f0efec", "#86b7e0", "#2f78bd", "#083a75"],
    dark: ["#ffc388", "#e08a35", "#7a5030", "#343b44", "#2c5f92", "#4b97dc", "#b0dbff"],
  },
  rising: {
    light: ["#f3f5f7", "#d2e2f0", "#9cc3e4", "#5a9bd0", "#2b6fae", "#0f457f", "#062a55"],
    dark: ["#242a32", "#27435f", "#2c5f92", "#3c82c2", "#62a8e6", "#9ccdf8", "#e0f1ff"],
  },
};

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

function parts(hex) {
  return [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
}

// Gives the colour of a share from 0 to 1 along a palette: red, green and blue.
function along(palette, share) {
  const stops = STOPS[palette][isDark() ? "dark" : "light"];
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const before = Math.min(Math.floor(place), stops.length - 2);
  const [from, to] = [parts(stops[before]), parts(stops[before + 1])];
  return from.map((value, index) => Math.round(value + (place - before) * (to[index] - value)));
}

// The colours of all 256 levels of a layer, red, green, blue and cover each; level 0 is clear.
function coloursOfLevels(layer) {
  const table = new Uint8ClampedArray(256 * 4);
  for (let level = 1; level < 256; level++) {
    const [low, high] = layer.domain;
    table.set([...along(layer.palette, (layer.value(level) - low) / (high - low)), 255], 4 * level);
  }
  return table;
}

// Text on a colour: dark or light, whichever is read better.
function inkOn([red, green, blue]) {
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#14181d" : "#ffffff";
}

// What is not measured is hatched, so that it is not taken for a value.
function hatch(context) {
  const tile = make("canvas", { width: 8, height: 8 });
  const pencil = tile.getContext("2d");
  pencil.strokeStyle = colour("soft");
  pencil.globalAlpha = 0.3;
  pencil.lineWidth = 1;
  for (const shift of [-8, 0, 8]) {
    pencil.moveTo(shift, 8);
    pencil.lineTo(shift + 8, 0);
  }
  pencil.stroke();
  return context.createPattern(tile, "repeat");
}
