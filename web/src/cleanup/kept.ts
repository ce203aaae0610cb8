import { useState } from 'react'

/** What was shown before, until the answer to another question is there: so that nothing under the reader's eyes goes away. */
export function useKept<T>(data: T | undefined): T | undefined {
  const [kept, setKept] = useState(data)
  if (data !== undefined && data !== kept) setKept(data)
  return data ?? kept
}
