import type { Composition } from '../../src/supervisor.ts'

/** Called before every call of a port's method; what it throws, the caller of the method gets. */
export type Hook = (method: string, args: readonly unknown[]) => void

export function hooked<T extends object>(port: T, before: Hook): T {
  return new Proxy(port, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key)
      if (typeof value !== 'function') return value
      return (...args: unknown[]): unknown => {
        before(String(key), args)
        return Reflect.apply(value, target, args)
      }
    },
  })
}

/** The same for one port of a composition. */
export function hookOn(name: 'effects' | 'ledger', before: Hook): NonNullable<Composition['wrap']> {
  return (port, implementation) => (port === name ? hooked(implementation, before) : implementation)
}
