"use strict";
(() => {
  const given = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
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
  const draw = (isDark, width) => {
    const swap = new Map(isDark ? given.colours : []);
    for (const [name, figure] of Object.entries(given.figures)) {
      const place = document.getElementById(`plot-${name}`);
      const layout = coloured(figure.layout, swap);
      if (width) Object.assign(layout, { width: Math.min(width, place.clientWidth || width), autosize: false });
      if (place.clientWidth < 560) layout.legend = { ...layout.legend, font: { size: 10.5 } };
      Plotly.react(place, coloured(figure.data, swap), layout, config);
    }
  };
  draw(dark.matches);
  dark.addEventListener("change", () => draw(dark.matches));
  window.addEventListener("beforeprint", () => draw(false, 690));
  window.addEventListener("afterprint", () => draw(dark.matches));
})();
