import type { Place } from './place.ts'

/** A way to run a program and to stop it. Every way gets the same launch, and is used as its documentation describes. */
export interface Way {
  readonly name: string
  readonly title: string
  /** The exact steps of the way, shown in the document. */
  readonly how: string
  /** The reason why this machine cannot measure the way; undefined when it can. */
  readonly missing?: () => string | undefined
  start(launch: Launch): Promise<Started>
}

export interface Launch {
  readonly place: Place
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** `open`: the standard input of the program stays open, because the program ends at the end of its input. */
  readonly input: 'open' | 'none'
  /** Folders that the program needs in addition to its own place and the system. */
  readonly readOnly: readonly string[]
  /** The agent to launch, for a way that launches agents by their provider. */
  readonly agent?: AgentLaunch
}

export interface AgentLaunch {
  readonly type: string
  readonly prompt: string
  readonly configuration: Readonly<Record<string, unknown>>
}

export interface Started {
  /** Settles when the way reports that the stop is complete. */
  stop(): Promise<Answer>
  /** Ends what the way itself needed, such as a server. */
  end?(): Promise<void>
}

export interface Answer {
  /** Whether the way reports that the program has stopped. */
  readonly isDone: boolean
  /** The report of the way in words, such as an exit code. */
  readonly words: string
}

/**
 * The time that every way has from the stop on, for its own answer and for the system to become clean. What exists afterwards counts as
 * left. The measurement applies this limit; the ways do not.
 */
export const patienceMs = 10_000

/**
 * A command that opens the standard input of the program in a shell, for ways that cannot pass a descriptor of this process to the program.
 */
export function throughShell({ argv, input, place }: Launch): readonly string[] {
  return ['sh', '-c', 'exec "$@" <"$0"', input === 'open' ? place.input : '/dev/null', ...argv]
}

/** Settles with the result of the work, or with undefined at the timeout. */
export async function within<T>(work: Promise<T>, timeMs: number): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => resolve(undefined), timeMs)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
