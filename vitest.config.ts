import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/support/world-guard.ts'],
    reporters: ['default', './test/support/skip-reporter.ts'],
    retry: 0,
    // Real processes on two cores: one file at a time keeps the leak guard's view of the world its own.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
