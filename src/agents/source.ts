import type { Parsed, Provider } from '../core/ports/provider.ts'
import type { Source } from './stream/reader.ts'

/** Selects the parser of a log: standard output is parsed by the provider, standard error becomes `error` messages. */
export function sourceOf(where: Omit<Source, 'parse'>, provider: Provider | undefined): Source {
  if (where.stream === 'stderr') return { ...where, parse: parseStderr }
  return { ...where, parse: (line) => provider?.parse(line) ?? { messages: [{ type: 'response', content: line }] } }
}

function parseStderr(line: string): Parsed {
  return { messages: [{ type: 'error', content: line, metadata: { stream: 'stderr' } }] }
}
