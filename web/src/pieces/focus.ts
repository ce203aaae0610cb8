import { type RefObject, useLayoutEffect, useRef } from 'react'

/** Focuses the heading of the view. Used when the focused element is removed; otherwise Tab would start at the top of the page again. */
export function focusHeading(): void {
  // Focusing the heading must not change the scroll position.
  document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true })
}

/** For elements that disappear without user action: if the focus is inside when they are removed, it moves to the heading. */
export function useFocusFallback<T extends HTMLElement>(given?: RefObject<T | null>): RefObject<T | null> {
  const made = useRef<T>(null)
  const target = given ?? made
  useLayoutEffect(() => {
    const element = target.current
    // A layout effect's cleanup runs before React removes the element, while it still has the focus.
    return () => {
      if (element?.contains(document.activeElement)) focusHeading()
    }
  }, [target])
  return target
}
