import { randomBytes } from 'node:crypto'

/**
 * Every process that a test starts inherits this variable, unless it clears its environment. The mark identifies the process. No mark is a
 * prefix of another.
 */
export const markVariable = 'EBB_TEST_MARK'

export const fileMark = `${process.pid}.${randomBytes(4).toString('hex')}-`

let tests = 0

export function nextTestMark(): string {
  tests += 1
  return `${fileMark}t${tests}-`
}

export function currentMark(): string {
  return process.env[markVariable] ?? fileMark
}
