"use strict";
// Only improves the pages: results while somebody types, and a button that copies. Everything works without.
const search = document.getElementById("search");
if (search) {
  let timer = 0;
  let latest = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const number = ++latest;
      try {
        const body = new URLSearchParams(new FormData(search.form));
        const response = await fetch("/search", { method: "POST", body });
        if (response.ok && number === latest) document.getElementById("results").innerHTML = await response.text();
      } catch {
        // The console has ended: the next form says so.
      }
    }, 120);
  });
}
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).value);
    document.getElementById("copied").textContent = "Copied";
  });
}
