import type { EngineEventMap, EngineListener } from './api.ts'
import type { ProgressListener } from './progress.ts'

/** The listeners of an engine. They are called in the order in which they were added; one that throws does not stop the others. */
export class EngineEvents {
  readonly #listeners = new Map<keyof EngineEventMap, Set<EngineListener<never>>>()
  readonly #onFailure: (error: unknown) => void
  readonly progress: ProgressListener = {
    started: (progress, about) => this.emit('close-started', progress, about),
    moved: (progress, track) => this.emit('close-moved', progress, track),
    over: (progress) => this.emit('close-over', progress),
  }

  constructor(onFailure: (error: unknown) => void) {
    this.#onFailure = onFailure
  }

  on<K extends keyof EngineEventMap>(name: K, listener: EngineListener<K>): Disposable {
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners)
    listeners.add(listener)
    return { [Symbol.dispose]: () => void listeners.delete(listener) }
  }

  emit<K extends keyof EngineEventMap>(name: K, ...event: EngineEventMap[K]): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      try {
        ;(listener as EngineListener<K>)(...event)
      } catch (error) {
        this.#onFailure(error)
      }
    }
  }
}
