import { defineConfig } from "vite";

// The page is served by `fairway` under whatever path a proxy gives it: all addresses in it are relative.
// Nothing is inlined: the Content-Security-Policy allows files of the same origin only.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/fairway/web/page",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    chunkSizeWarningLimit: 400,
  },
});
