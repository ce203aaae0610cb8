import type { Parsed, Provider } from '../core/ports/provider.ts'
import type { Source } from './stream/reader.ts'

/** How a log is read: standard output by its provider, standard error as it is. */
export function sourceOf(where: Omit<Source, 'parse'>, provider: Provider | undefined): Source {
  if (where.stream === 'stderr') return { ...where, parse: complaint }
  return { ...where, parse: (line) => provider?.parse(line) ?? { messages: [{ type: 'response', content: line }] } }
}

function complaint(line: string): Parsed {
  return { messages: [{ type: 'error', content: line, metadata: { stream: 'stderr' } }] }
}
