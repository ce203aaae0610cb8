import { EbbError } from '../core/model/errors.ts'

/** What the providers share in making an argv. */

/** MAX_ARG_STRLEN of execve(2), the closing NUL included. */
const argumentLimitBytes = 131_072

/** In one argument: a value that begins with a dash is still a value. */
export function flag(name: string, value: string | undefined): readonly string[] {
  return value ? [`${name}=${value}`] : []
}

/** Clients send empty lists for what they do not mean to say. */
export function flagList(name: string, values: readonly string[] | undefined): readonly string[] {
  return flag(name, values?.join(','))
}

export function fits(argument: string): boolean {
  return Buffer.byteLength(argument) < argumentLimitBytes
}

/** For programs without a place for instructions, and for instructions that are too long for it. */
export function instructed(prompt: string, instructions: string | undefined): string {
  return instructions ? `${instructions}\n\n${prompt}` : prompt
}

/** Rather no agent than one that may do more than it was told, or lacks what it was promised. */
export function refuse(sentence: string): never {
  throw new EbbError('launch_refused', sentence)
}
