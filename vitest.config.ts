import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/support/world-guard.ts'],
    reporters: ['default', './test/support/skip-reporter.ts'],
    retry: 0,
    // Real processes on few cores. Each file looks at the world by its own mark, so files may run beside each other.
    maxWorkers: 3,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
