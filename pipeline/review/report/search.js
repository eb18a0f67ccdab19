"use strict";
const form = document.getElementById("search-form");
const box = document.getElementById("search");
const said = document.getElementById("found");
const rows = [...document.querySelectorAll("[data-row]")].map((row) => [row, row.textContent.toLowerCase()]);
const look = () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const [row, text] of rows) {
    row.hidden = !words.every((word) => text.includes(word));
    shown += !row.hidden;
  }
  for (const part of document.querySelectorAll("[data-part]")) {
    const rest = part.querySelector(".rest");
    if (rest) rest.open = words.length > 0 && rest.querySelector("[data-row]:not([hidden])") !== null;
    part.hidden = words.length > 0 && !part.querySelector("[data-row]:not([hidden])");
  }
  said.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
};
form.hidden = false;
form.addEventListener("submit", (event) => event.preventDefault());
box.addEventListener("input", look);
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});
