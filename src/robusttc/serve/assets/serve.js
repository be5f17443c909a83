// The pages work with the same API as everybody else.
const token = document.querySelector('meta[name="csrf-token"]')?.content ?? "";

async function ask(url, options = {}) {
  const headers = { "x-csrf-token": token };
  if (options.body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(url, { ...options, headers, body: options.body && JSON.stringify(options.body) });
  const found = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(found.detail ?? answer.statusText), { problem: found });
  return found;
}

function element(kind, text = "", properties = {}) {
  const made = Object.assign(document.createElement(kind), properties);
  made.textContent = text;
  return made;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

// Try it: the answer to what is typed, once the typing pauses.
let latest = 0;
function show(prediction, place) {
  const bars = element("div", "", { className: "bars" });
  Object.entries(prediction.probabilities).slice(0, 6).forEach(([label, share], number) => {
    const className = number === 0 ? "is-first" : "";
    bars.append(
      element("span", label, { className }),
      element("meter", percent(share), { value: share, min: 0, max: 1 }),
      element("span", percent(share), { className: `number ${className}` }),
    );
    bars.querySelector("meter:last-of-type").setAttribute("aria-label", label);
  });
  const said = [bars];
  if (prediction.in_scope === false) said.unshift(element("p", "Probably none of these labels fits.", { className: "problem" }));
  if (prediction.nearest_example) {
    const { text, label } = prediction.nearest_example;
    said.push(element("p", `The most similar example is “${text}” (${label}).`, { className: "soft" }));
  }
  place.replaceChildren(...said);
}

for (const field of document.querySelectorAll(".try")) {
  let timer;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const place = document.getElementById("answer"), turn = ++latest, text = field.value;
      if (!text.trim()) return place.replaceChildren();
      try {
        const url = `${field.dataset.root}v1/tasks/${field.dataset.task}/predict`;
        const found = await ask(url, { method: "POST", body: { texts: [text], top_k: 6, nearest: true } });
        if (turn === latest) show(found.predictions[0], place);
      } catch (error) {
        if (turn === latest) place.replaceChildren(element("p", error.message, { className: "problem" }));
      }
    }, 150);
  });
}

// The map: which task is pointed at.
document.querySelector(".map")?.addEventListener("pointerover", ({ target }) => {
  const name = target.querySelector?.("title")?.textContent;
  if (target.matches?.(".dot") && name) document.getElementById("pointed").textContent = name;
});

// Labels that conflict with those of similar tasks; finding them takes a moment.
document.getElementById("conflicts")?.addEventListener("click", async ({ target }) => {
  const place = document.getElementById("conflict-list");
  target.disabled = true;
  place.replaceChildren(element("p", "Comparing…", { className: "soft" }));
  try {
    const found = await ask(`${target.dataset.root}v1/tasks/${target.dataset.task}/conflicts`);
    const list = element("ul");
    list.append(...found.sentences.map((sentence) => element("li", sentence)));
    place.replaceChildren(found.sentences.length ? list : element("p", "No label conflicts with one of a similar task."));
  } catch (error) {
    place.replaceChildren(element("p", error.message, { className: "problem" }));
  }
  target.disabled = false;
});

// A new client: read the rows, show what is wrong with them line by line, learn, try.
const form = document.getElementById("new");
if (form) {
  const outcome = document.getElementById("outcome"), rows = form.querySelector("#rows");
  form.querySelector("#file").addEventListener("change", async ({ target }) => {
    if (target.files.length) rows.value = await target.files[0].text();
  });
  const say = (...parts) => outcome.replaceChildren(...parts);
  const read = async () => {
    const found = await ask(`${form.dataset.root}v1/read`, { method: "POST", body: { content: rows.value } });
    const list = element("ul", "", { className: "problems" });
    list.append(...found.problems.map((one) => element("li", one)));
    if (found.problems.length) say(element("p", "The rows cannot be used as they are:", { className: "problem" }), list);
    return found.problems.length ? null : found;
  };
  const failed = (error) => {
    const details = (error.problem?.errors ?? []).map((one) => element("li", one.message));
    const list = element("ul", "", { className: "problems" });
    list.append(...details);
    say(element("p", error.message, { className: "problem", role: "alert" }), list);
  };
  form.querySelector("#check").addEventListener("click", async () => {
    try {
      const found = await read();
      if (found) {
        const labels = Object.entries(found.labels).map(([label, n]) => `${label} (${n})`).join(", ");
        say(element("p", `${found.examples.length} examples can be used: ${labels}.`, { className: "done" }));
      }
    } catch (error) { failed(error); }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = form.querySelector("#name").value, button = form.querySelector(".primary");
    button.disabled = true;
    try {
      const found = await read();
      if (found) {
        say(element("p", "Learning…", { className: "soft" }));
        const url = `${form.dataset.root}v1/tasks/${encodeURIComponent(name)}`;
        const made = await ask(url, { method: "PUT", body: { examples: found.examples } });
        const expected = made.expected_accuracy === null ? "It cannot be said how accurate it will be: no label has two examples."
          : `Expected accuracy ${percent(made.expected_accuracy)}, 95 % from ${percent(made.interval[0])} to ${percent(made.interval[1])}.`;
        const fits = made.fits_a_cluster ? "" : " No cluster fits it, so its own model serves.";
        const done = element("p", `${name} has been learned from ${made.n_examples} examples. ${expected}${fits} `, { className: "done" });
        done.append(element("a", "Show it", { href: `${form.dataset.root}tasks/${made.task}` }));
        say(done);
        document.getElementById("try-new").hidden = false;
        document.getElementById("text").dataset.task = made.task;
      }
    } catch (error) { failed(error); }
    button.disabled = false;
  });
}
