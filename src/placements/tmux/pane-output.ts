import { openRegular } from '../../host/slow-effects.ts'

/** The number of bytes that are read from the end of a log. */
const endBytes = 4_096
/** The maximum number of characters that are quoted from the last line. */
const quotedCharacters = 200

/** The last line that an agent wrote, for the error message about its early end. The logs themselves are removed with the failed launch. */
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

/** The end of a log. Empty when the log is gone, or when the agent has replaced it with something that is not a file. */
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
