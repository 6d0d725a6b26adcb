// Sorts a table by a click on the head of a column: by numbers, durations and shares where it has such.
"use strict";

(() => {
  const chosen = new Map();
  const units = { ms: 0.001, s: 1, min: 60, h: 3600, d: 86400, "%": 1 };

  function worth(cell) {
    const text = (cell.dataset.sort || cell.textContent).trim();
    if (text === "") {
      return -Infinity;
    }
    const found = /^(?:in |since )?(-?[\d,]+(?:\.\d+)?)(?: ?(ms|s|min|h|d|%)(?: ago)?| \/ (s|min|h|d))?$/.exec(text);
    if (!found) {
      return text.toLowerCase();
    }
    const number = Number(found[1].replaceAll(",", ""));
    return found[3] ? number / units[found[3]] : number * (units[found[2]] || 1);
  }

  function compare(one, other) {
    if (typeof one === typeof other) {
      return one < other ? -1 : Number(one > other);
    }
    return typeof one === "number" ? -1 : 1;
  }

  function sort(table, column, isUp) {
    const bodies = Array.from(table.tBodies);
    const sizes = bodies.map((body) => body.rows.length);
    const rows = bodies.flatMap((body) => Array.from(body.rows));
    const known = new Map(rows.map((row) => [row, row.cells[column] ? worth(row.cells[column]) : -Infinity]));
    rows.sort((one, other) => compare(known.get(one), known.get(other)) * (isUp ? 1 : -1));
    let at = 0;
    bodies.forEach((body, number) => {
      body.append(...rows.slice(at, at + sizes[number]));
      at += sizes[number];
    });
    Array.from(table.tHead.rows[0].cells).forEach((head, number) => {
      if (number === column) {
        head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      } else {
        head.removeAttribute("aria-sort");
      }
    });
  }

  function choose(table, column) {
    const before = chosen.get(table.dataset.sheet);
    const isUp = before && before.column === column ? !before.isUp : false;
    chosen.set(table.dataset.sheet, { column, isUp });
    sort(table, column, isUp);
  }

  function arm() {
    for (const table of document.querySelectorAll("table[data-sheet]")) {
      Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
        if (head.textContent && table.dataset.sheet !== "overview" && !head.classList.contains("sorts")) {
          const button = document.createElement("button");
          button.type = "button";
          button.textContent = head.textContent;
          button.addEventListener("click", () => choose(table, column));
          head.replaceChildren(button);
          head.classList.add("sorts");
        }
      });
      const known = chosen.get(table.dataset.sheet);
      if (known) {
        sort(table, known.column, known.isUp);
      }
    }
  }

  document.addEventListener("looked", arm);
  arm();
})();
