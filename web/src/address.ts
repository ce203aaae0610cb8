import { hrefOf, usePlace } from './routing.ts'

/**
 * What a view is asked for after the `?` of its address, and a way to ask for something else: the address follows without another
 * stop on the way back, and whoever writes it by hand is followed.
 */
export function useQuery(): readonly [query: URLSearchParams, ask: (next: Readonly<Record<string, string>>) => void] {
  const { view, query } = usePlace()
  const ask = (next: Readonly<Record<string, string>>): void => {
    window.history.replaceState(null, '', addressOf(view, new URLSearchParams(next)))
    // A state that is replaced tells nobody.
    window.dispatchEvent(new HashChangeEvent('hashchange'))
  }
  return [query, ask]
}

/** Empty texts ask for nothing. */
export function addressOf(view: string, query: URLSearchParams): string {
  const said = new URLSearchParams([...query].filter(([, value]) => value !== ''))
  return said.size === 0 ? hrefOf(view) : `${hrefOf(view)}?${said}`
}
