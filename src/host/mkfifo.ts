import { createRequire } from 'node:module'

type MakePipe = (path: string) => void

/** The function that `findMkfifo` returns; `null` until koffi has been looked for. */
let loaded: MakePipe | undefined | null = null

/**
 * mkfifo(3), which Node does not offer; undefined where koffi is not installed. The call takes microseconds, while starting
 * the program mkfifo(1) blocks the event loop for 2 ms. Loading koffi takes 10 ms, so it is loaded with the first log.
 */
export function findMkfifo(): MakePipe | undefined {
  if (loaded === null) loaded = load()
  return loaded
}

function load(): MakePipe | undefined {
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
    const mkfifo: (path: string, mode: number) => number = koffi.load(null).func('int mkfifo(const char *, unsigned int)')
    return (path) => {
      if (mkfifo(path, 0o600) !== 0) throw new Error(`The pipe ${path} could not be made (mkfifo: errno ${koffi.errno()}).`)
    }
  } catch {
    return undefined
  }
}
