import { openRegular } from '../../host/slow-effects.ts'

/** As much of a log's end is looked at. */
const endBytes = 4_096
/** As much of a line is quoted. */
const quotedCharacters = 200

/** The last line that an agent wrote, for a sentence about its early end: its logs go with the launch. */
export async function lastWords(logs: readonly string[]): Promise<string | undefined> {
  for (const log of logs) {
    const line = (await endOf(log))
      .split('\n')
      .map((one) => one.trim())
      .findLast(Boolean)
    if (line !== undefined) return line.length > quotedCharacters ? `${line.slice(0, quotedCharacters)}…` : line
  }
  return undefined
}

/** One that is gone, or that the agent has put something else in the place of, says nothing. */
async function endOf(log: string): Promise<string> {
  try {
    await using file = await openRegular(log)
    const { size } = await file.stat()
    const { buffer, bytesRead } = await file.read(Buffer.alloc(endBytes), 0, endBytes, Math.max(0, size - endBytes))
    return buffer.toString('utf8', 0, bytesRead)
  } catch {
    return ''
  }
}
