import type { Composition } from '../../src/supervisor.ts'

/** Called before every method of a port. An error that the hook throws goes to the caller of the method. */
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

/** Returns the option of a composition that calls the hook before every method of one port. */
export function hookOn(name: 'effects' | 'ledger', before: Hook): NonNullable<Composition['wrap']> {
  return (port, implementation) => (port === name ? hooked(implementation, before) : implementation)
}
