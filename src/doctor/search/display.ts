import type { ProcessFact } from '../judgement/process-fact.ts'
import { environOf, readText } from './proc-facts.ts'

/**
 * Whether a process has a window. The kernel does not list the peer of a Unix socket, so this checks for what every client of a
 * display has: the address of the display in its environment, and a client library in its memory.
 */
export function isOnDisplay({ pid, argv }: ProcessFact): boolean {
  if (argv.some((word) => word.startsWith('--headless') || word.startsWith('--type='))) return false
  const hasAddress = (environOf(pid) ?? []).some((entry) => /^(DISPLAY|WAYLAND_DISPLAY)=./.test(entry))
  return hasAddress && /\/lib(X11|xcb|wayland-client)[-.\w]*\.so/.test(readText(`/proc/${pid}/maps`) ?? '')
}
