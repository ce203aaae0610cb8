import { type RefObject, useLayoutEffect, useRef } from 'react'

/** Of a view the heading, when what had the focus is gone: from nowhere, a keyboard would begin again at the top of the page. */
export function focusHeading(): void {
  // Who reads further down stays there.
  document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true })
}

/** For what goes away by itself: if it goes with the focus in it, the heading has it. */
export function useFocusHeir<T extends HTMLElement>(given?: RefObject<T | null>): RefObject<T | null> {
  const made = useRef<T>(null)
  const held = given ?? made
  useLayoutEffect(() => {
    const own = held.current
    // Before React takes it away; afterwards nobody knows who had the focus.
    return () => {
      if (own?.contains(document.activeElement)) focusHeading()
    }
  }, [held])
  return held
}
