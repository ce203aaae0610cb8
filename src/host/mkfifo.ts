import { createRequire } from 'node:module'

type MakePipe = (path: string) => void

let known: MakePipe | undefined | null = null

/**
 * mkfifo(3), which Node does not have, where koffi is installed: a call of microseconds instead of a process that keeps
 * the event loop waiting for 2 ms. Loading koffi takes 10 ms, so only who makes logs does it.
 */
export function findMkfifo(): MakePipe | undefined {
  if (known === null) known = load()
  return known
}

function load(): MakePipe | undefined {
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
    const mkfifo: (path: string, mode: number) => number = koffi.load(null).func('int mkfifo(const char *, unsigned int)')
    return (path) => {
      if (mkfifo(path, 0o600) !== 0) throw new Error(`mkfifo could not make ${path} (errno ${koffi.errno()})`)
    }
  } catch {
    return undefined
  }
}
