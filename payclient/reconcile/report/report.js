"use strict";
(() => {
  const form = document.getElementById("filter");
  const box = document.getElementById("filter-text");
  const told = document.getElementById("filter-count");
  const plain = (text) => text.toLowerCase().replaceAll("\u2212", "-");
  const groups = [...document.querySelectorAll(".group")].map((group) => {
    const heading = group.querySelector("h2, h3").textContent;
    const rows = [...group.querySelectorAll(".rows tbody tr")].map((row) => {
      const text = plain([heading, ...[...row.cells].map((cell) => cell.textContent)].join(" "));
      // Amounts are found with and without their separators.
      return { row, text: text + " " + text.replace(/(\d),(?=\d{3})/g, "$1") };
    });
    return { group, rows };
  });
  const total = groups.reduce((sum, { rows }) => sum + rows.length, 0);
  const apply = () => {
    const words = plain(box.value).split(/\s+/).filter(Boolean);
    let matches = 0;
    for (const { group, rows } of groups) {
      let shown = 0;
      for (const { row, text } of rows) {
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      group.hidden = words.length > 0 && shown === 0;
      matches += shown;
    }
    const of = total.toLocaleString("en") + (total === 1 ? " row" : " rows");
    told.textContent = words.length ? matches.toLocaleString("en") + " of " + of + " on this page" : of + " on this page";
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("input", apply);
  box.addEventListener("keydown", (event) => {
    // Not every browser empties a search box by itself.
    if (event.key === "Escape") {
      box.value = "";
      apply();
    }
  });
  window.addEventListener("pageshow", apply);
  form.hidden = total === 0;
  apply();
})();
