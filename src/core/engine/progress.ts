import type { ReleaseState, ResourceProgress } from '../model/progress.ts'
import type { Report, ResourceReport, StepTaken } from '../model/report.ts'
import type { Intent } from '../model/resource.ts'
import type { Clock } from '../ports/clock.ts'

/**
 * A running close, resource by resource. The close only records its progress and never waits for an observer. Observers are notified that
 * something has moved, and read it when they have time (G12).
 */

/** The identity of a close, or of several closes that run as one. It is known from the start. */
export interface Undertaking {
  /** The id of the report in the audit trail. */
  readonly id: string
  readonly trigger: Report['trigger']
  readonly scope: Report['scope']
  readonly startedAt: string
  readonly startedMs: number
  readonly namespace?: string
}

/** A listener that is notified about closes while they run. */
export interface ProgressListener {
  started(progress: Progress, about: Undertaking): void
  moved(progress: Progress, track: Track): void
  over(progress: Progress): void
}

export class Progress {
  /** What the close is about. Undefined for a part of a larger close, because such a part has no report of its own. */
  readonly about: Undertaking | undefined
  readonly #listener: ProgressListener | undefined
  readonly #tracks = new Map<string, Track>()
  readonly #parts = new Set<Progress>()
  readonly #above = new Set<Progress>()
  #hasEnded = false

  constructor(listener?: ProgressListener, about?: Undertaking) {
    this.#listener = listener
    this.about = about
    if (about) listener?.started(this, about)
  }

  /** Makes another close a part of this one, even if it was requested before. */
  include(part: Progress): void {
    this.#parts.add(part)
    part.#above.add(this)
  }

  /** A resource that is released a second time, because it came back, keeps its track. */
  track(entry: Tracked, place: TrackPlace, clock: Clock): Track {
    const known = this.#tracks.get(entry.intent.id)
    if (known) return known
    const track = new Track(entry, place, clock, (moved) => this.#moved(moved))
    this.#tracks.set(track.id, track)
    return track
  }

  #moved(track: Track): void {
    if (this.#hasEnded) return
    if (this.about) this.#listener?.moved(this, track)
    for (const above of this.#above) above.#moved(track)
  }

  tracks(): ReadonlyMap<string, Track> {
    if (this.#parts.size === 0) return this.#tracks
    return new Map([...[...this.#parts].flatMap((part) => [...part.tracks()]), ...this.#tracks])
  }

  /** Ends the notifications about the close. Called when its report exists. */
  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    for (const part of this.#parts) part.#above.delete(this)
    if (this.about) this.#listener?.over(this)
  }
}

/** A resource whose release is tracked. */
export interface Tracked {
  readonly intent: Intent
  readonly name: string
}

export interface TrackPlace {
  readonly scope: Report['scope']
  readonly namespace: string | undefined
}

/** The progress of one resource's release. */
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
  /** The steps that have been taken. The code that takes the steps adds to them. */
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

  /** Clears what an earlier release of the resource noted, because a new release begins. */
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

  /** Obligations are tried from now on. The returned function records how long they took. */
  beginObligations(): (tookMs: number) => void {
    this.to('obligations')
    const at = this.#since
    return (took) => {
      this.#obligations = { at, took }
    }
  }

  /** Ends the release and returns the resource's report, with its times and its scope. */
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

/** Counts the resources of a running close that are gone, and those that are stuck or held back. */
export function countOf(tracks: Iterable<Track>): { readonly released: number; readonly stuck: number } {
  let released = 0
  let stuck = 0
  for (const { state } of tracks) {
    if (state === 'released' || state === 'given-up') released += 1
    if (state === 'stuck' || state === 'held-back') stuck += 1
  }
  return { released, stuck }
}
