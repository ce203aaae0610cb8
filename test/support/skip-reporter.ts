import type { Reporter, TestModule } from 'vitest/node'

/** Lists skipped tests with their reasons at the end of a run. A skipped suite must not look like a passed one. */
export default class SkipReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const byReason = new Map<string, string[]>()
    for (const module of modules) {
      for (const test of module.children.allTests('skipped')) {
        const result = test.result()
        const reason = result.state === 'skipped' && result.note !== undefined ? result.note : 'no reason given'
        byReason.set(reason, [...(byReason.get(reason) ?? []), `${module.relativeModuleId} > ${test.fullName}`])
      }
    }
    if (byReason.size === 0) return
    const lines = [...byReason].flatMap(([reason, tests]) => [`  ${reason}`, ...tests.map((test) => `    ${test}`)])
    process.stdout.write(`\nSkipped tests, by reason:\n${lines.join('\n')}\n`)
  }
}
