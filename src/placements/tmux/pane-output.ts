import { openRegular } from '../../host/slow-effects.ts'

/** How much of the end of a log is read. */
const endBytes = 4_096
/** How much of the line is quoted. */
const quotedCharacters = 200

/** The last line that an agent wrote, for the error about its early end. Its logs are removed with the failed launch. */
export async function lastLine(logs: readonly string[]): Promise<string | undefined> {
  for (const log of logs) {
    const line = (await endOf(log))
      .split('\n')
      .map((one) => one.trim())
      .findLast(Boolean)
    if (line !== undefined) return line.length > quotedCharacters ? `${line.slice(0, quotedCharacters)}…` : line
  }
  return undefined
}

/** Returns nothing for a log that is gone, or that the agent has replaced with something else. */
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
