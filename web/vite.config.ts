import { defineConfig } from 'vite'

/** Builds one script and one stylesheet, with nothing inline and nothing from other origins, as the strict content security policy requires. */
export default defineConfig({
  root: import.meta.dirname,
  oxc: { jsx: { runtime: 'automatic' } },
  build: {
    outDir: '../dist/web',
    emptyOutDir: true,
    target: 'es2023',
    // The browsers of `cssTarget` know `light-dark()`, so it is not compiled away. Older browsers lack other features that the page uses.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
})
