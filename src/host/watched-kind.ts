import type { ResourceKind } from '../core/ports/kind.ts'

/** Wraps a kind so that `onUnknown` is called whenever an observation answers `unknown`. */
export function watchedKind(kind: ResourceKind, onUnknown: (kind: string) => void): ResourceKind {
  return new Proxy(kind, {
    get: (target, property) => {
      const value = Reflect.get(target, property, target) as unknown
      if (typeof value !== 'function') return value
      if (property !== 'observe') return value.bind(target) as unknown
      return async (...args: Parameters<ResourceKind['observe']>) => {
        const presence = await target.observe(...args)
        if (presence.is === 'unknown') onUnknown(target.kind)
        return presence
      }
    },
  })
}
