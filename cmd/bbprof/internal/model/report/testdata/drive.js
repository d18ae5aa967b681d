// Sorts and searches like a reader, and writes what it sees into the page.
const out = [];
const table = document.getElementById("blocks");
const first = () => table.tBodies[0].querySelector("tr:not([hidden]) small").textContent;
const heads = Array.from(table.tHead.rows[0].cells);
const cycles = heads.findIndex(h => h.textContent === "Cycles");
heads[cycles].querySelector("button").click(); out.push("falling " + first());
heads[cycles].querySelector("button").click(); out.push("rising " + first());
heads[cycles + 2].querySelector("button").click(); out.push("model " + first());
heads[cycles + 3].querySelector("button").click(); out.push("missing " + first());
const search = document.getElementById("search");
search.value = "ADD 0x1d"; search.dispatchEvent(new Event("input"));
out.push("found " + first() + " " + document.getElementById("shown").textContent);
document.querySelector("a[data-rows]").click(); out.push("of it " + document.getElementById("shown").textContent);
document.getElementById("theme").click(); out.push("theme " + document.documentElement.className);
out.push("width " + (document.documentElement.scrollWidth <= window.innerWidth));
const result = document.createElement("pre"); result.id = "driven"; result.textContent = out.join("|"); document.body.append(result);
