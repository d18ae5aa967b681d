"use strict";
(function () {
  // value is what a cell is sorted by: its number, or its text.
  function value(row, column) {
    const cell = row.cells[column];
    if (cell.dataset.v !== undefined) return cell.dataset.v === "" ? null : Number(cell.dataset.v);
    return cell.textContent.trim().toLowerCase();
  }
  function compare(a, b, sign) {
    if (a === b) return 0;
    if (a === null) return 1; // what there is not comes last, whatever the direction
    if (b === null) return -1;
    return sign * (typeof a === "number" ? a - b : a < b ? -1 : 1);
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", function () {
        const first = head.classList.contains("text") ? "ascending" : "descending";
        const other = first === "ascending" ? "descending" : "ascending";
        const order = head.getAttribute("aria-sort") === first ? other : first;
        heads.forEach(function (h) { h.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const body = table.tBodies[0];
        const rows = Array.from(body.rows).map(function (r) { return [value(r, column), r]; });
        rows.sort(function (a, b) { return compare(a[0], b[0], sign); });
        body.append(...rows.map(function (r) { return r[1]; }));
      });
    });
  }

  const search = document.getElementById("search");
  const shown = document.getElementById("shown");
  const rows = Array.from(document.getElementById("blocks").tBodies[0].rows);
  const texts = rows.map(function (r) { return r.textContent.toLowerCase(); });
  let only = null; // the rows of a mistake
  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    rows.forEach(function (r, i) {
      const fits = (!only || only.has(r.dataset.row)) && words.every(function (w) { return texts[i].includes(w); });
      r.hidden = !fits;
      if (fits) n++;
    });
    shown.textContent = n + " of " + rows.length + " blocks" + (only ? ", of " + name : "");
  }
  let name = "";
  search.addEventListener("input", function () { only = null; filter(); });
  for (const link of document.querySelectorAll("a[data-rows]"))
    link.addEventListener("click", function () {
      only = new Set(link.dataset.rows.split(" "));
      name = link.dataset.name;
      search.value = "";
      filter();
    });
  filter();

  document.getElementById("theme").addEventListener("click", function () {
    const root = document.documentElement;
    const dark = root.classList.contains("dark") ||
      !root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches;
    root.classList.toggle("dark", !dark);
    root.classList.toggle("light", dark);
  });
})();
