import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * The tests come in tiers, one project and one folder each. `npm test` runs `unit` and `core`; `npm run test:full` runs all of them.
 * CONTRIBUTING.md says what belongs where.
 */

/** Long files start first, so that no worker is left with one of them at the end. Vitest knows no durations on a fresh clone. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => (longFiles.test(moduleId) ? 0 : 1)
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

const longFiles = /\/test\/(crash\/|core\/exec\/zoo\.|placements\/(remote\/lost|runner\/vanishing|ecs\/close-under-faults)\.)/

const everyTest = './test/support/guard-every-test.ts'

export default defineConfig({
  test: {
    reporters: ['default', './test/support/skip-reporter.ts'],
    retry: 0,
    // Two cores: one test computes while others wait for processes and disks. Every test looks for its own mark only.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // The deadline of `expect.poll`. A poll ends as soon as its condition holds.
    expect: { poll: { timeout: 30_000 } },
    projects: [
      // Pure functions and small parts, in one module registry per worker: no file changes the state of a module.
      {
        extends: true,
        test: { name: 'unit', include: ['test/unit/**/*.test.ts'], setupFiles: ['./test/support/guard-every-file.ts'], isolate: false },
      },
      { extends: true, test: { name: 'core', include: ['test/core/**/*.test.ts'], setupFiles: [everyTest] } },
      { extends: true, test: { name: 'placements', include: ['test/placements/**/*.test.ts'], setupFiles: [everyTest] } },
      { extends: true, test: { name: 'browser', include: ['test/browser/**/*.test.ts'], setupFiles: [everyTest] } },
      { extends: true, test: { name: 'crash', include: ['test/crash/**/*.test.ts'], setupFiles: [everyTest] } },
      // Real agents, which `npm run test:agents` installs. Each takes a core for its first second or two, and up to half a gigabyte.
      { extends: true, test: { name: 'agents', include: ['test/agents/**/*.test.ts'], setupFiles: [everyTest], testTimeout: 300_000 } },
    ],
  },
})
