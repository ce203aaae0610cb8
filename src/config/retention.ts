import { EbbError } from '../core/model/errors.ts'
import type { RetentionRule, RetentionRules } from '../core/model/retention.ts'
import { agentTypePattern } from '../core/model/task.ts'

/** The settings of archives, and the syntax of the rules for one type of agents. */

interface ArchiveSettings {
  readonly archiveMaxAgeDays: number
  readonly archiveMaxBytes: number | undefined
  readonly archiveTaskMaxBytes: number | undefined
  readonly archiveCompressAfterDays: number
  readonly archiveByAgentType: ReadonlyMap<string, RetentionRule>
}

export function retentionRules(settings: ArchiveSettings): RetentionRules {
  const { archiveMaxAgeDays, archiveMaxBytes, archiveTaskMaxBytes, archiveCompressAfterDays, archiveByAgentType } = settings
  return {
    maxAgeDays: archiveMaxAgeDays,
    compressAfterDays: archiveCompressAfterDays,
    ...(archiveMaxBytes !== undefined && { maxBytes: archiveMaxBytes }),
    ...(archiveTaskMaxBytes !== undefined && { taskMaxBytes: archiveTaskMaxBytes }),
    byAgentType: archiveByAgentType,
  }
}

/** Parses a number of days: `30`, `0.5` for half a day, or `never`. */
export function parseDays(text: string, name: string): number {
  if (text === 'never') return Number.POSITIVE_INFINITY
  if (!/^\d{1,6}(\.\d{1,6})?$/.test(text)) throw new EbbError('bad_usage', `${name} must be a number of days, or never, not "${text}".`)
  return Number(text)
}

type ParseSize = (text: string, name: string) => number

/** Parses `reviewer=7,builder.maxBytes=1g`: a type with a number of days, or a type and one key of its rule. */
export function parseByAgentType(items: readonly string[], name: string, parseSize: ParseSize): ReadonlyMap<string, RetentionRule> {
  const rules = new Map<string, RetentionRule>()
  for (const item of items) {
    const [path = '', value = '', ...more] = item.split('=')
    const [type = '', key = 'maxAgeDays', ...deeper] = path.split('.')
    if (!agentTypePattern.test(type) || value === '' || more.length + deeper.length > 0)
      throw new EbbError('bad_usage', `${name} must hold entries such as reviewer=7 or builder.maxBytes=1g, not "${item}".`)
    rules.set(type, { ...rules.get(type), ...ruleOf(key, value, `${name}, ${type}.${key},`, parseSize) })
  }
  return rules
}

function ruleOf(key: string, value: string, name: string, parseSize: ParseSize): RetentionRule {
  if (key === 'maxAgeDays') return { maxAgeDays: parseDays(value, name) }
  if (key === 'compressAfterDays') return { compressAfterDays: parseDays(value, name) }
  if (key === 'maxBytes') return { maxBytes: parseSize(value, name) }
  throw new EbbError('bad_usage', `${name} is not a known key; use maxAgeDays, maxBytes or compressAfterDays.`)
}

/** Flattens the rules for types of agents in a configuration file, which are nested objects, into entries `TYPE.KEY=VALUE`. */
export function mapEntries(value: unknown, path: readonly string[] = []): readonly string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [`${path.join('.')}=${String(value)}`]
  return Object.entries(value).flatMap(([key, inner]) => mapEntries(inner, [...path, key]))
}
