import { EbbError } from '../core/model/errors.ts'

/** Helpers that the providers share to build an argv. */

/** MAX_ARG_STRLEN of execve(2): the limit of one argument with its closing NUL. */
const argumentLimitBytes = 131_072

/** Joins name and value in one argument, so that a value that begins with a dash is not taken for an option. */
export function flag(name: string, value: string | undefined): readonly string[] {
  return value ? [`${name}=${value}`] : []
}

/** An empty list counts as none, because clients send empty lists for unset values. */
export function flagList(name: string, values: readonly string[] | undefined): readonly string[] {
  return flag(name, values?.join(','))
}

export function fits(argument: string): boolean {
  return Buffer.byteLength(argument) < argumentLimitBytes
}

/**
 * Puts instructions in front of the prompt, for programs that have no option for instructions, and for instructions that are too long for
 * that option.
 */
export function instructed(prompt: string, instructions: string | undefined): string {
  return instructions ? `${instructions}\n\n${prompt}` : prompt
}

/** Refuses a launch that the program cannot carry out: it cannot enforce a restriction, or cannot provide what was requested. */
export function refuse(sentence: string): never {
  throw new EbbError('launch_refused', sentence)
}
