// test-summary.mjs FILE…: adds up vitest's JSON results, repeats every failure, and ends with the line "N passed, N failed".
// A failure is repeated because its first report is thousands of lines above the end of a CI log.
import { readFileSync } from 'node:fs'

let passed = 0
let failed = 0
for (const file of process.argv.slice(2)) {
  try {
    const results = JSON.parse(readFileSync(file, 'utf8'))
    passed += results.numPassedTests
    // A test file that cannot be loaded adds no failed test, but makes the run unsuccessful. Then the run counts as one failure.
    failed += results.numFailedTests + (results.success || results.numFailedTests ? 0 : 1)
    for (const { name, message, status, assertionResults } of results.testResults) {
      if (status === 'failed') console.log(`FAILED ${name} ${message ?? ''}`)
      for (const test of assertionResults)
        if (test.status === 'failed') console.log(`FAILED ${test.fullName}\n${test.failureMessages.join('\n')}`)
    }
  } catch (error) {
    failed += 1
    console.log(`The results in ${file} cannot be read: ${error.message}`)
  }
}
if (passed + failed === 0) failed = 1
console.log(`${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
