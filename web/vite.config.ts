import { defineConfig } from 'vite'

/** One script, one stylesheet, nothing inline and nothing from elsewhere: the page runs under the strictest policy there is. */
export default defineConfig({
  root: import.meta.dirname,
  oxc: { jsx: { runtime: 'automatic' } },
  build: {
    outDir: '../dist/web',
    emptyOutDir: true,
    target: 'es2023',
    // `light-dark()` stays as it is written: a browser that does not know it is older than the rest that we use.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
})
