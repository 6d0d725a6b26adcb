// Draws what came, was acked, failed, and was open: over an hour, six, a day, or a week.
"use strict";

(() => {
  const names = ["enqueued", "acked", "failed", "open"];
  const keys = ["entered", "done", "failed", "items"];
  const paints = ["--accent", "--ok", "--stop", "--muted"];
  const canvas = document.createElement("div");
  let hours = 1;
  let plot = null;
  let drawn = "";
  let shown = null;

  // A colour that is one of two by the scheme is known to an element only.
  function paint(name) {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function part() {
    const minutes = hours;
    return minutes === 1 ? "minute" : minutes < 60 ? `${minutes} min` : `${minutes / 60} h`;
  }

  function tip(u) {
    const box = document.createElement("div");
    box.className = "tip";
    box.hidden = true;
    u.over.append(box);
    return () => {
      const at = u.cursor.idx;
      box.hidden = at === null || at === undefined || u.cursor.left < 0;
      if (!box.hidden) {
        const lines = names.map((name, number) => `${name} ${u.data[number + 1][at].toLocaleString()}`);
        box.textContent = [new Date(u.data[0][at] * 1000).toLocaleString(), ...lines].join("\n");
        const isRight = u.cursor.left > u.over.clientWidth / 2;
        box.style.left = isRight ? "" : `${u.cursor.left + 12}px`;
        box.style.right = isRight ? `${u.over.clientWidth - u.cursor.left + 12}px` : "";
        box.style.top = "8px";
      }
    };
  }

  function series() {
    const lines = names.map((name, number) => ({
      label: name,
      scale: name === "open" ? "open" : "flow",
      stroke: paint(paints[number]),
      width: name === "open" ? 1 : 2,
      dash: name === "open" ? [4, 3] : undefined,
      points: { show: false },
    }));
    return [{}, ...lines];
  }

  function axes() {
    const stroke = paint("--muted");
    const grid = { stroke: paint("--line"), width: 1 };
    const values = (_u, all) => all.map((one) => (Number.isInteger(one) ? one.toLocaleString() : ""));
    return [
      { stroke, grid, ticks: grid },
      { stroke, grid, ticks: grid, scale: "flow", label: `items per ${part()}`, labelSize: 18, size: 52, values },
      { stroke, grid: { show: false }, ticks: grid, scale: "open", side: 1, label: "open items", labelSize: 18, size: 56, values },
    ];
  }

  function draw() {
    const place = document.querySelector(".chart");
    if (!place || !shown) {
      return;
    }
    place.classList.add("drawn");
    const holder = place.querySelector(".canvas");
    holder.replaceChildren(canvas);
    holder.setAttribute("aria-label", summary());
    for (const button of place.querySelectorAll("[data-hours]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.hours) === hours));
    }
    const data = [shown.at, ...keys.map((key) => shown[key])];
    // What is drawn in the same way keeps its cursor.
    const way = [hours, holder.clientWidth, paint("--accent")].join();
    if (plot && way === drawn) {
      plot.setData(data);
      return;
    }
    if (plot) {
      plot.destroy();
    }
    drawn = way;
    let move = () => {};
    const range = (_u, _low, high) => [0, Math.max(1, high * 1.08)];
    plot = new uPlot(
      {
        width: holder.clientWidth,
        height: 240,
        series: series(),
        axes: axes(),
        scales: { flow: { range }, open: { range } },
        legend: { live: false },
        cursor: { y: false },
        hooks: { ready: [(u) => { move = tip(u); }], setCursor: [() => move()] },
      },
      data,
      canvas,
    );
  }

  function summary() {
    const total = (key) => shown[key].reduce((sum, one) => sum + one, 0).toLocaleString();
    const open = shown.items[shown.items.length - 1].toLocaleString();
    return `In ${hours} h: ${total("entered")} enqueued, ${total("done")} acked, ${total("failed")} failed; ${open} open now`;
  }

  async function look() {
    const place = document.querySelector(".chart");
    if (!place) {
      return;
    }
    draw();
    try {
      const answer = await fetch(`${place.dataset.flow}?hours=${hours}`, { credentials: "same-origin", cache: "no-store" });
      if (answer.ok) {
        shown = await answer.json();
        draw();
      }
    } catch {
      // What is shown stays: the page says by itself that it is not refreshed.
    }
  }

  document.addEventListener("click", (event) => {
    const chosen = event.target.closest && event.target.closest("[data-hours]");
    if (chosen) {
      hours = Number(chosen.dataset.hours);
      look();
    }
  });
  document.addEventListener("looked", look);
  document.addEventListener("theme", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", draw);
  look();
})();
