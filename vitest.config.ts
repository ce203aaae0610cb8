import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * The longest first, or two of three workers wait for the last; on a fresh clone nobody has measured them yet. Browsers last: beside
 * the crash matrices each of them would wait for a processor most of its time.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      if (/\/test\/(crash\/|integration\/(zoo|remote\/lost|runner\/vanishing|aws\/close-under-faults)\.)/.test(moduleId)) return 0
      return /\/test\/browser\//.test(moduleId) ? 2 : 1
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // They need real agents, which `npm run test:agents` installs.
    exclude: ['test/agents/**'],
    setupFiles: ['test/support/world-guard.ts'],
    reporters: ['default', './test/support/skip-reporter.ts'],
    retry: 0,
    // Real processes on few cores. Each file looks at the world by its own mark, so files may run beside each other.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // A deadline, not a measurement: what polls ends at the event.
    expect: { poll: { timeout: 30_000 } },
  },
})
