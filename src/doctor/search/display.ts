import type { ProcessFact } from '../judgement/process-fact.ts'
import { environOf, readText } from './proc-facts.ts'

/**
 * Whether a process has a window. Whose socket it is connected to the kernel does not list; but who speaks to a display has its address
 * and the library for it.
 */
export function isOnDisplay({ pid, argv }: ProcessFact): boolean {
  if (argv.some((word) => word.startsWith('--headless') || word.startsWith('--type='))) return false
  const isToldOne = (environOf(pid) ?? []).some((entry) => /^(DISPLAY|WAYLAND_DISPLAY)=./.test(entry))
  return isToldOne && /\/lib(X11|xcb|wayland-client)[-.\w]*\.so/.test(readText(`/proc/${pid}/maps`) ?? '')
}
