import { hash } from 'node:crypto'

/**
 * A UUID derived from the place of a message (RFC 9562, version 5, with the agent as the name space). Reading the same line
 * again gives the same id.
 */
export function messageId(agentId: string, stream: string, offset: number, part: number): string {
  const digest = hash('sha1', `${agentId}/${stream}/${offset}/${part}`, 'hex')
  const variant = ((Number.parseInt(digest.charAt(16), 16) & 0x3) | 0x8).toString(16)
  return `${digest.slice(0, 8)}-${digest.slice(8, 12)}-5${digest.slice(13, 16)}-${variant}${digest.slice(17, 20)}-${digest.slice(20, 32)}`
}
