import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'

/** The size and the SHA-256 that S3 reports for a completely uploaded file. */
export interface Sum {
  readonly sizeBytes: number
  /**
   * The SHA-256 in Base64. An object that was uploaded in parts has the checksum of the checksums of its parts, in their order (Checking
   * object integrity, S3 user guide), so the value depends on the size of the parts.
   */
  readonly sha256: string
}

export async function sumOf(file: string, partBytes: number): Promise<Sum> {
  const parts: Buffer[] = []
  let part = createHash('sha256')
  let inPart = 0
  let sizeBytes = 0
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length
    for (let rest = chunk; rest.length > 0; ) {
      const some = rest.subarray(0, partBytes - inPart)
      part.update(some)
      inPart += some.length
      rest = rest.subarray(some.length)
      if (inPart < partBytes) continue
      parts.push(part.digest())
      part = createHash('sha256')
      inPart = 0
    }
  }
  if (inPart > 0 || parts.length === 0) parts.push(part.digest())
  const [only] = parts
  const sum = parts.length === 1 && only ? only : createHash('sha256').update(Buffer.concat(parts)).digest()
  return { sizeBytes, sha256: sum.toString('base64') }
}

/** S3 appends the number of parts to the checksum of an object with parts: `…=-3`. */
export function isSameSum(sum: Sum, seen: { readonly sizeBytes: number; readonly sha256?: string }): boolean {
  return seen.sizeBytes === sum.sizeBytes && seen.sha256?.replace(/-\d+$/, '') === sum.sha256
}
