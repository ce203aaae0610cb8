import { defineConfig } from 'vitest/config'

/** The real agents: `npm run test:agents`, which installs them first. */
export default defineConfig({
  test: {
    include: ['test/agents/**/*.test.ts'],
    setupFiles: ['test/support/world-guard.ts'],
    reporters: ['default', './test/support/skip-reporter.ts'],
    retry: 0,
    // An agent takes a core for its first second or two, and up to half a gigabyte.
    maxWorkers: 3,
    testTimeout: 300_000,
    hookTimeout: 60_000,
  },
})
