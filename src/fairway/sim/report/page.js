(() => {
  const tip = document.getElementById("tip");
  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const time = (s) => { for (const [n, u] of units) if (s >= n) return +(s / n).toPrecision(4) + u; return "0"; };
  for (const svg of document.querySelectorAll("svg.plot")) {
    const block = svg.querySelector("script");
    if (!block) continue;
    const data = JSON.parse(block.textContent), cursor = svg.querySelector(".cursor");
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, at = (x - data.left) / data.width * data.end;
      if (at < 0 || at > data.end) return hide();
      let index = data.times.findIndex((t) => t >= at);
      if (index < 0) index = data.times.length - 1;
      cursor.setAttribute("x1", x); cursor.setAttribute("x2", x); cursor.style.visibility = "visible";
      tip.replaceChildren();
      const head = document.createElement("b");
      head.textContent = "until " + time(data.times[index]);
      tip.append(head);
      for (const [name, values] of Object.entries(data.series)) {
        const row = document.createElement("div"), value = values[index];
        row.textContent = name + ": " + (data.percent ? (100 * value).toFixed(1) + " %" : value);
        tip.append(row);
      }
      tip.style.visibility = "visible";
      tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
      tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
    });
    const hide = () => { tip.style.visibility = "hidden"; cursor.style.visibility = "hidden"; };
    svg.addEventListener("pointerleave", hide);
  }
})();
