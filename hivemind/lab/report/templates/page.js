"use strict";
(() => {
  const given = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const PAPER_PX = 690;
  const config = {
    displaylogo: false,
    responsive: true,
    // plotly's own list has a button that opens its makers' site and hands them the plot.
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    plotlyServerURL: "",
    showSendToCloud: false,
  };
  const coloured = (value, swap) => {
    if (typeof value === "string") return swap.get(value) ?? value;
    if (Array.isArray(value)) return value.map((each) => coloured(each, swap));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, coloured(each, swap)]));
  };
  const places = Object.keys(given.figures).map((name) => [document.getElementById(`plot-${name}`), given.figures[name]]);
  const draw = (isDark) => {
    const swap = new Map(isDark ? given.colours : []);
    for (const [place, figure] of places) {
      const layout = coloured(figure.layout, swap);
      if (place.clientWidth < 560) layout.legend.font = { size: 10.5 };
      Plotly.react(place, coloured(figure.data, swap), layout, config);
    }
  };
  // A plot of another width is drawn in several steps, for which a printer doesn't wait; this one is only made smaller.
  const fit = (width) => {
    for (const [place] of places) {
      const box = place.querySelector(".svg-container");
      const scale = Math.min(1, width / place.clientWidth);
      box.style.transformOrigin = "0 0";
      box.style.transform = scale < 1 ? `scale(${scale})` : "";
      place.style.height = scale < 1 ? `${box.clientHeight * scale}px` : "";
    }
  };
  draw(dark.matches);
  dark.addEventListener("change", () => draw(dark.matches));
  window.addEventListener("beforeprint", () => {
    if (dark.matches) draw(false);
    fit(PAPER_PX);
  });
  window.addEventListener("afterprint", () => {
    fit(Infinity);
    if (dark.matches) draw(true);
  });
})();
