import type { Engine } from '../core/engine/api.ts'
import { countOf, type Progress, type Track, type Undertaking } from '../core/engine/progress.ts'
import { noLongerNeeded } from '../core/engine/race.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Events } from './events.ts'

/** What has moved meanwhile is told together; a person sees no shorter moment. */
const frameMs = 50

/** So many in one frame, the rest in the next: what is told must not hold up what is done. */
const toldAtOnce = 64

/**
 * The closes that are under way, for those who watch. A resource is told as it is when its frame comes, not each state that it
 * had; and once a close has its report, nothing more is told of it: the report has it all.
 */
export class RunningCloses {
  readonly #clock: Clock
  readonly #events: Events
  readonly #closes = new Map<Progress, { readonly about: Undertaking; readonly moved: Set<Track> }>()
  #frame: AbortController | undefined

  constructor(engine: Engine, clock: Clock, events: Events) {
    this.#clock = clock
    this.#events = events
    engine.on('close-started', (progress, about) => this.#started(progress, about))
    engine.on('close-moved', (progress, track) => this.#moved(progress, track))
    engine.on('close-over', (progress) => this.#over(progress))
  }

  #started(progress: Progress, about: Undertaking): void {
    this.#closes.set(progress, { about, moved: new Set() })
    const { id, trigger, scope, startedAt, namespace } = about
    this.#events.emit('closing', { id, trigger, scope, startedAt, ...(namespace !== undefined && { namespace }) })
  }

  #moved(progress: Progress, track: Track): void {
    this.#closes.get(progress)?.moved.add(track)
    if (this.#frame) return
    const frame = new AbortController()
    this.#frame = frame
    this.#clock.after(frameMs, frame.signal, () => this.#tell())
  }

  #over(progress: Progress): void {
    this.#closes.delete(progress)
    if (this.#closes.size > 0) return
    this.#frame?.abort(noLongerNeeded)
    this.#frame = undefined
  }

  #tell(): void {
    this.#frame = undefined
    let left = toldAtOnce
    for (const [progress, { about, moved }] of this.#closes) {
      for (const track of moved) {
        if (left-- === 0) {
          this.#moved(progress, track)
          return
        }
        moved.delete(track)
        const { id, trigger, scope, startedAt } = about
        // Of a close that is everybody's, each hears what is its own.
        const namespace = about.namespace ?? track.namespace
        const where = namespace === undefined ? {} : { namespace }
        this.#events.emit('progress', { id, trigger, scope, startedAt, resource: track.shown(), ...where })
      }
    }
  }

  /** Newest first. */
  list(): readonly (Undertaking & { readonly released: number; readonly stuck: number })[] {
    return [...this.#closes].toReversed().map(([progress, { about }]) => ({ ...about, ...countOf(progress.tracks().values()) }))
  }

  find(id: string): Progress | undefined {
    return [...this.#closes.keys()].find(({ about }) => about?.id === id)
  }
}
