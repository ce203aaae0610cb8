import type { Place } from './place.ts'

/** A way to run a program and to stop it. Every way gets the same launch and is used as its documentation says. */
export interface Way {
  readonly name: string
  readonly title: string
  /** What exactly is done, for the document. */
  readonly how: string
  /** Why it cannot be measured on this machine. */
  readonly missing?: () => string | undefined
  start(launch: Launch): Promise<Started>
}

export interface Launch {
  readonly place: Place
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** A program that ends when its input does is given one that stays open. */
  readonly input: 'open' | 'none'
  /** Folders that it needs besides its own place and the system. */
  readonly readOnly: readonly string[]
  /** For a way that knows agents by themselves. */
  readonly agent?: AgentLaunch
}

export interface AgentLaunch {
  readonly type: string
  readonly prompt: string
  readonly configuration: Readonly<Record<string, unknown>>
}

export interface Started {
  /** Settles when the way says that it is over. */
  stop(): Promise<Answer>
  /** Of what the way needed for itself. */
  end?(): Promise<void>
}

export interface Answer {
  /** It says that what it was asked to stop has stopped. */
  readonly isDone: boolean
  /** By what it says so. */
  readonly words: string
}

/**
 * Time that every way gets, from the stop on: for its own answer, and for the world to be clean. What is there afterwards is
 * left. It is applied where we measure, and by no way itself.
 */
export const patienceMs = 10_000

/** For ways whose program gets no descriptor of ours. */
export function throughShell({ argv, input, place }: Launch): readonly string[] {
  return ['sh', '-c', 'exec "$@" <"$0"', input === 'open' ? place.input : '/dev/null', ...argv]
}

/** Settles with undefined when the time is over. */
export async function within<T>(work: Promise<T>, timeMs: number): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => resolve(undefined), timeMs)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
