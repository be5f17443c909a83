// What tests ask of a page in the browser; a test adds a line that calls one of these.

// Texts that are seen: elements with text of their own, but those that only a screen reader has.
function findTexts() {
  return [...document.querySelectorAll("body *")].filter((element) =>
    [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
    && element.checkVisibility() && !element.closest(".unseen, .skip, script, noscript, svg, option"));
}

const show = (element) => element.outerHTML.slice(0, 200);

// Texts that are cut, or lie beyond the screen.
function findCut(width) {
  return findTexts().filter((element) => {
    const box = element.getBoundingClientRect();
    const isNarrow = element.clientWidth && element.scrollWidth > element.clientWidth + 1;
    const isLow = element.clientHeight && element.scrollHeight > element.clientHeight + 2
      && getComputedStyle(element).overflowY !== "visible";
    const isBeyond = !element.closest(".scroll") && (box.right > width + 1 || box.left < -1);
    return isNarrow || isLow || isBeyond;
  }).map(show);
}

// What is tapped, but too low for a finger.
function findSmall(least) {
  return [...document.querySelectorAll("button, nav a, select, input[type=search], summary, .choices label")]
    .filter((element) => element.checkVisibility() && element.getBoundingClientRect().height < least).map(show);
}

// Texts whose contrast to what is behind them is below 4.5, or 3 where they are large.
function findPale() {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = read(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const part = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([red, green, blue]) => 0.2126 * part(red / 255) + 0.7152 * part(green / 255) + 0.0722 * part(blue / 255);
  return findTexts().filter((element) => {
    if (element.disabled) return false;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const [dark, bright] = [light(read(color)), light(behind(element))].sort((a, b) => a - b);
    const isLarge = parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && fontWeight >= 700);
    return (bright + 0.05) / (dark + 0.05) < (isLarge ? 3 : 4.5);
  }).map(show);
}

// The whole names in the table; half a character, which no answer can hold, comes as a box.
function findRows() {
  return [...document.querySelectorAll(".tasks tbody th .link")]
    .map((link) => (link.title || link.textContent).toWellFormed());
}

function findOwn() {
  return [...document.querySelectorAll(".tasks tbody tr")].map((row) => row.cells[4].textContent);
}
