// All about one task, in a window over the page.

function startDetails() {
  const dialog = document.getElementById("details");
  listen("task", show);
  // A click beside the window closes it.
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  function show(place) {
    const task = tasks[place];
    const close = make("button", { type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "Close");
    const title = make("h2", { id: "details-title", dir: "auto" }, task.name);
    dialog.replaceChildren(
      make("div", { class: "head" }, title, close),
      make("div", { class: "body" }, facts(task), accuracies(task), nearest(task), culprits(task), labels(task), command(task)),
    );
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  function facts(task) {
    const [train, valid, test] = task.rows;
    const entries = [
      ["Cluster", task.private ? "none: it is kept private" : task.out_of_cluster ? "none: it is like no cluster" : task.cluster === undefined ? "none" : String(task.cluster)],
      ["How sure", task.confidence === undefined ? null : percent(task.confidence)],
      ["Rows", `${count(train)} to learn from, ${count(valid)} to choose by, ${count(test)} to test on`],
      ["Labels", task.n_labels === undefined ? null : count(task.n_labels)],
      ["Sharing gives it", task.gain ? `${points(task.gain[0])} points ${range(task.gain, points)}` : "not known: it has no test rows"],
      ["Expected of sharing", task.expected ? `${points(task.expected[0])} points ${range(task.expected, points)}` : null],
      ["Added", task.added === undefined ? null : `in version ${task.added}`],
      ["Moved", task.moved ? `from ${clusterOf(task.moved.from)} to ${clusterOf(task.moved.to)} in version ${task.moved.version}` : null],
      ["Not learned", task.unlearned ? task.why_not || "it could not be" : null],
    ];
    return make("dl", { class: "facts" }, ...entries.filter(([, text]) => text !== null)
      .flatMap(([key, text]) => [make("dt", null, key), make("dd", null, text)]));
  }

  function accuracies(task) {
    if (!task.accuracy) return null;
    const rows = Object.keys(MODELS).filter((kind) => task.accuracy[kind]).map((kind) => make("tr", null,
      make("th", { scope: "row" }, MODELS[kind]),
      make("td", { class: "plot" }, drawStrip({ [kind]: task.accuracy[kind] }, ACCURACY_AXIS, 20)),
      make("td", { class: "figure" }, percent(task.accuracy[kind][0])),
    ));
    const ends = make("div", { class: "ends" }, ...ACCURACY_AXIS.map((end) => make("span", null, plain(100 * end, 0) + " %")));
    rows.push(make("tr", { class: "axis", "aria-hidden": "true" }, make("td"), make("td", null, ends), make("td")));
    return make("div", { class: "means" }, make("h3", null, "Right on test rows, with 95 % intervals"), make("table", null, make("tbody", null, ...rows)));
  }

  function nearest(task) {
    if (!task.nearest) return null;
    const list = task.nearest.map(([place, similarity]) => make("li", null, link(place), make("small", null, ` similarity ${plain(similarity, 2)}, ${clusterOf(tasks[place].cluster)}`)));
    return make("div", null, make("h3", null, "Most like it"), make("ul", null, ...list));
  }

  function culprits(task) {
    if (!task.culprits) return null;
    return make("div", { class: "note doubt" }, make("h3", null, "Sharing harms it; these serve it worst"), make("ul", null, ...task.culprits.map((place) => make("li", null, link(place)))));
  }

  function labels(task) {
    const cluster = data.clusters.find(({ number }) => number === task.cluster);
    if (!cluster || !cluster.labels.length || task.private) return null;
    const list = cluster.labels.map(([label, number]) => make("li", null, `${shorten(label)} (${number})`));
    return make("div", null, make("h3", null, `Labels in its cluster, by the number of its ${tasksOf(cluster.size)}`), make("ul", { class: "chips" }, ...list));
  }

  function command(task) {
    // In single quotes a shell takes everything as it is, but the quote itself.
    const quoted = `'${task.name.replaceAll("'", "'\\''")}'`;
    const code = make("code", null, `robusttc explain ${data.place} --task=${quoted}`);
    return make("div", null, make("h3", null, "Why is it so?"), make("div", { class: "command" }, code, copyButton(code)));
  }
}
