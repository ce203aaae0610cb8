import type { ReleaseState, ResourceProgress } from '../model/progress.ts'
import type { Report, ResourceReport, StepTaken } from '../model/report.ts'
import type { Intent } from '../model/resource.ts'
import type { Clock } from '../ports/clock.ts'

/**
 * A close as it happens, resource by resource. Those who close write it down and go on: nobody is waited for, and who watches
 * is told only that something has moved, so that he may look when he has the time (G12).
 */

/** What a close, or several together, is known by from its first moment. */
export interface Undertaking {
  /** Of its report in the audit trail. */
  readonly id: string
  readonly trigger: Report['trigger']
  readonly scope: Report['scope']
  readonly startedAt: string
  readonly startedMs: number
  readonly namespace?: string
}

/** Follows closes while they run. */
export interface ProgressListener {
  started(progress: Progress, about: Undertaking): void
  moved(progress: Progress, track: Track): void
  over(progress: Progress): void
}

export class Progress {
  /** What its report will be kept as; a part of something larger has none of its own. */
  readonly about: Undertaking | undefined
  readonly #listener: ProgressListener | undefined
  readonly #tracks = new Map<string, Track>()
  readonly #parts = new Set<Progress>()
  readonly #above = new Set<Progress>()
  #isOver = false

  constructor(listener?: ProgressListener, about?: Undertaking) {
    this.#listener = listener
    this.about = about
    if (about) listener?.started(this, about)
  }

  /** A close that is a part of this one, whoever asked for it first. */
  include(part: Progress): void {
    this.#parts.add(part)
    part.#above.add(this)
  }

  /** The same resource is one, also when it came back and is released again. */
  track(entry: Tracked, place: TrackPlace, clock: Clock): Track {
    const known = this.#tracks.get(entry.intent.id)
    if (known) return known
    const track = new Track(entry, place, clock, (moved) => this.#moved(moved))
    this.#tracks.set(track.id, track)
    return track
  }

  #moved(track: Track): void {
    if (this.#isOver) return
    if (this.about) this.#listener?.moved(this, track)
    for (const above of this.#above) above.#moved(track)
  }

  tracks(): ReadonlyMap<string, Track> {
    if (this.#parts.size === 0) return this.#tracks
    return new Map([...[...this.#parts].flatMap((part) => [...part.tracks()]), ...this.#tracks])
  }

  /** Its report is there: whatever still goes on is told no more. */
  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const part of this.#parts) part.#above.delete(this)
    if (this.about) this.#listener?.over(this)
  }
}

/** A resource whose release is followed. */
export interface Tracked {
  readonly intent: Intent
  readonly name: string
}

export interface TrackPlace {
  readonly scope: Report['scope']
  readonly namespace: string | undefined
}

/** One resource on its way out. */
export class Track {
  readonly id: string
  readonly namespace: string | undefined
  readonly #clock: Clock
  readonly #onMoved: (track: Track) => void
  readonly #is: Pick<ResourceProgress, 'id' | 'kind' | 'name' | 'scope' | 'dependsOn'>
  #state: ReleaseState = 'waiting'
  #since: string
  #startedAt: string | undefined
  #obligations: ResourceReport['obligations']
  #end: Partial<Pick<ResourceReport, 'endedAt' | 'proof' | 'error' | 'notes'>> = {}
  /** Written by whoever climbs the ladder. */
  steps: StepTaken[] = []

  constructor({ intent, name }: Tracked, { scope, namespace }: TrackPlace, clock: Clock, onMoved: (track: Track) => void) {
    this.#is = { id: intent.id, kind: intent.kind, name, scope, dependsOn: intent.dependsOn }
    this.id = intent.id
    this.namespace = namespace
    this.#clock = clock
    this.#onMoved = onMoved
    this.#since = clock.wall()
  }

  get state(): ReleaseState {
    return this.#state
  }

  /** Its turn has come. */
  begin(): void {
    this.steps = []
    this.#end = {}
    this.#obligations = undefined
    this.#startedAt = this.#clock.wall()
  }

  to(state: ReleaseState): void {
    if (state === this.#state) return
    this.#state = state
    this.#since = this.#clock.wall()
    this.#onMoved(this)
  }

  /** From here on, until it is told how long it took. */
  owes(): (tookMs: number) => void {
    this.to('obligations')
    const at = this.#since
    return (took) => {
      this.#obligations = { at, took }
    }
  }

  /** The report with when and whose it was. */
  end(how: Pick<ResourceReport, 'outcome' | 'proof' | 'error' | 'notes'>): ResourceReport {
    const endedAt = this.#clock.wall()
    const { outcome, ...rest } = how
    this.#end = { ...rest, endedAt }
    this.to(outcome)
    const { id, kind, name, scope, dependsOn } = this.#is
    return { kind, name, outcome, steps: this.steps, ...rest, id, scope, dependsOn, ...this.#times(), endedAt }
  }

  #times(): Pick<ResourceReport, 'startedAt' | 'obligations'> {
    return {
      ...(this.#startedAt !== undefined && { startedAt: this.#startedAt }),
      ...(this.#obligations && { obligations: this.#obligations }),
    }
  }

  shown(): ResourceProgress {
    return { ...this.#is, state: this.#state, since: this.#since, ...this.#times(), ...this.#end, steps: [...this.steps] }
  }
}

/** How many of a close under way are gone, and how many stay. */
export function countOf(tracks: Iterable<Track>): { readonly released: number; readonly stuck: number } {
  let released = 0
  let stuck = 0
  for (const { state } of tracks) {
    if (state === 'released' || state === 'given-up') released += 1
    if (state === 'stuck' || state === 'held-back') stuck += 1
  }
  return { released, stuck }
}
