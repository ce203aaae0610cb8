import { writeFileSync, writeSync } from 'node:fs'
import { EbbError, sentence } from '../core/model/errors.ts'
import type { Report } from '../core/model/report.ts'

/** Writes the report. `-` is standard error, so that the command's own standard output is not changed. */
export function writeReport(to: string, report: Report): void {
  const text = `${JSON.stringify(report, null, 2)}\n`
  try {
    if (to === '-') writeSync(2, text)
    else writeFileSync(to, text, { mode: 0o600 })
  } catch (error) {
    throw new EbbError(
      'launch_failed',
      `The report could not be written to ${to} (${sentence(error)}); the command itself has ended and nothing of it is left.`,
    )
  }
}
