import { useState } from 'react'

/** Returns the previous data while new data is being loaded, so that the page does not go blank. */
export function useLastData<T>(data: T | undefined): T | undefined {
  const [last, setLast] = useState(data)
  if (data !== undefined && data !== last) setLast(data)
  return data ?? last
}
