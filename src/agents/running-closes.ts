import type { Engine } from '../core/engine/api.ts'
import { countOf, type Progress, type Track, type Undertaking } from '../core/engine/progress.ts'
import { noLongerNeeded } from '../core/engine/race.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Events } from './events.ts'

/** The length of a frame. Changes within a frame are emitted together, because a person does not see shorter intervals. */
const frameMs = 50

/** The most events of one frame. Further events follow in the next frame, so that emitting does not delay the closes. */
const maxPerFrame = 64

/**
 * The running closes. Emits the changes of their resources in frames: each resource with its state at that moment, not every
 * state it had. After the report of a close no more progress of it is emitted.
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
    this.#clock.after(frameMs, frame.signal, () => this.#emitFrame())
  }

  #over(progress: Progress): void {
    this.#closes.delete(progress)
    if (this.#closes.size > 0) return
    this.#frame?.abort(noLongerNeeded)
    this.#frame = undefined
  }

  #emitFrame(): void {
    this.#frame = undefined
    let left = maxPerFrame
    for (const [progress, { about, moved }] of this.#closes) {
      for (const track of moved) {
        if (left-- === 0) {
          this.#moved(progress, track)
          return
        }
        moved.delete(track)
        const { id, trigger, scope, startedAt } = about
        // A close of all namespaces emits each resource to the namespace of that resource.
        const namespace = about.namespace ?? track.namespace
        const where = namespace === undefined ? {} : { namespace }
        this.#events.emit('progress', { id, trigger, scope, startedAt, resource: track.shown(), ...where })
      }
    }
  }

  /** Lists the running closes, newest first. */
  list(): readonly (Undertaking & { readonly released: number; readonly stuck: number })[] {
    return [...this.#closes].toReversed().map(([progress, { about }]) => ({ ...about, ...countOf(progress.tracks().values()) }))
  }

  find(id: string): Progress | undefined {
    return [...this.#closes.keys()].find(({ about }) => about?.id === id)
  }
}
