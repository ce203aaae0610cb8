import { EbbError } from '../core/model/errors.ts'
import type { RetentionRule, RetentionRules } from '../core/model/retention.ts'
import { agentTypePattern } from '../core/model/task.ts'

/** The settings about archives, and how what is different for a type of agents is written. */

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

/** 30, half a day as 0.5, or `never`. */
export function parseDays(text: string, name: string): number {
  if (text === 'never') return Number.POSITIVE_INFINITY
  if (!/^\d{1,6}(\.\d{1,6})?$/.test(text)) throw new EbbError('bad_usage', `${name} must be a number of days, or never, not "${text}".`)
  return Number(text)
}

type ParseSize = (text: string, name: string) => number

/** `reviewer=7,builder.maxBytes=1g`: a number of days, or one of the keys. */
export function parseByAgentType(items: readonly string[], name: string, parseSize: ParseSize): ReadonlyMap<string, RetentionRule> {
  const rules = new Map<string, RetentionRule>()
  for (const item of items) {
    const [place = '', value = '', ...more] = item.split('=')
    const [type = '', key = 'maxAgeDays', ...deeper] = place.split('.')
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
  throw new EbbError('bad_usage', `${name} is not known; there are maxAgeDays, maxBytes and compressAfterDays.`)
}

/** The same from a file: a value, or an object of them, of objects of them. */
export function mapEntries(value: unknown, place: readonly string[] = []): readonly string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [`${place.join('.')}=${String(value)}`]
  return Object.entries(value).flatMap(([key, inner]) => mapEntries(inner, [...place, key]))
}
