import { resolve } from 'node:path'
import { EbbError } from '../core/model/errors.ts'
import { namespaceName } from '../core/model/names.ts'
import { parseSpawnRule } from '../core/model/spawn-rule.ts'

/** The definition of a setting, and the parsers of the usual types of values. */

export interface Option<T> {
  readonly help: string
  /**
   * `switch`: the flag takes no value. `list`: the flag may be given more than once; one text holds several entries with
   * commas. `map`: a list of entries `NAME=VALUE`; in a file it is an object.
   */
  readonly shape?: 'switch' | 'list' | 'map'
  readonly placeholder: string
  readonly fallback: T
  readonly parse: (text: string, name: string) => T
}

export const option = <T>(placeholder: string, help: string, fallback: T, parse: Option<T>['parse']): Option<T> => ({
  help,
  placeholder,
  fallback,
  parse,
})

/** A setting that is on or off, and off by default. */
export const toggle = (help: string): Option<boolean> => ({ ...option('true|false', help, false as boolean, parseToggle), shape: 'switch' })

export const list = (placeholder: string, help: string, parseItem = (item: string, _name: string) => item): Option<readonly string[]> => ({
  ...option<readonly string[]>(placeholder, help, [], (text, name) => parseList(text, name).map((item) => parseItem(item, name))),
  shape: 'list',
})

export function choice<const C extends string>(...allowed: readonly C[]): (text: string, name: string) => C {
  return (text, name) => {
    const found = allowed.find((candidate) => candidate === text)
    if (found === undefined) throw new EbbError('bad_usage', `${name} must be one of ${allowed.join(', ')}, not "${text}".`)
    return found
  }
}

/** An empty text is refused: an unset variable in a script must not select the current folder as the home. */
export function parseFolder(text: string, name: string): string {
  if (text === '') throw new EbbError('bad_usage', `${name} must name a folder.`)
  return resolve(text)
}

export function parseText(text: string, name: string): string {
  if (text === '') throw new EbbError('bad_usage', `${name} needs a value.`)
  return text
}

/** Parses the name of a namespace by the server's own rule for such names, because the name appears in logs and records. */
export function parseNamespace(text: string, name: string): string {
  if (!namespaceName.pattern.test(text)) throw new EbbError('bad_usage', `${name} must be a name of ${namespaceName.says}, not "${text}".`)
  return text
}

export function parsePort(text: string, name: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new EbbError('bad_usage', `${name} must be a port from 0 to 65535, not "${text}".`)
  return Number(text)
}

export function parseStore(text: string, name: string): string {
  const file = /^sqlite:(.+)$/s.exec(text)?.[1]
  if (file === undefined) throw new EbbError('bad_usage', `${name} must be sqlite:FILE, not "${text}".`)
  return resolve(file)
}

/** A token is sent in a header, so it must be visible ASCII. It must be long enough not to be guessed. */
export function parseToken(text: string, name: string): string {
  if (!/^[\x21-\x7e]{8,512}$/.test(text)) throw new EbbError('bad_usage', `${name} must have 8 to 512 visible characters and no spaces.`)
  return text
}

export function parseToggle(text: string, name: string): boolean {
  if (!/^(true|false|1|0|yes|no|on|off)$/i.test(text)) throw new EbbError('bad_usage', `${name} must be true or false, not "${text}".`)
  return /^(true|1|yes|on)$/i.test(text)
}

/** Joins entries into one text. A comma within an entry becomes `\,`. */
export const joinList = (items: readonly string[]): string => items.map((item) => item.replaceAll(',', '\\,')).join(',')

export function parseList(text: string, name: string): readonly string[] {
  const items = text.split(/(?<!\\),/).map((item) => item.trim().replaceAll('\\,', ','))
  if (items.includes('')) throw new EbbError('bad_usage', `${name} holds an empty entry.`)
  return items
}

/** Normalizes an origin to the form that a browser sends, so that the two can be compared: no path, and no default port. */
export function parseOrigin(text: string, name: string): string {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@*]+\/?$/i.test(text) || !URL.canParse(text))
    throw new EbbError('bad_usage', `${name} must be an origin such as http://localhost:3000, not "${text}".`)
  const { origin } = new URL(text)
  // `URL.origin` is "null" for schemes other than those of the web, such as that of a browser extension. The text itself is then the
  // origin.
  return origin === 'null' ? text.replace(/\/$/, '').toLowerCase() : origin
}

export function parseUrl(text: string, name: string): string {
  const url = URL.parse(text)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw new EbbError('bad_usage', `${name} must be a URL such as http://localhost:4400, not "${text}".`)
  return url.origin
}

/** Parses a URL that other URLs are built from. The path of this URL is kept. */
export function parseBase(text: string, name: string): string {
  const url = URL.parse(text)
  const isPlain = url && url.search === '' && url.hash === '' && url.username === '' && url.password === ''
  if (!isPlain || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw new EbbError('bad_usage', `${name} must be a URL such as http://10.0.0.7:4400, without a user or a query, not "${text}".`)
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}

export function parseSize(text: string, name: string): number {
  const match = /^(\d{1,12})(k|m|g|t)?b?$/i.exec(text)
  if (!match) throw new EbbError('bad_usage', `${name} must be a size such as 512m or 2g, not "${text}".`)
  return Number(match[1]) * 1_024 ** ['', 'k', 'm', 'g', 't'].indexOf((match[2] ?? '').toLowerCase())
}

export function parseRule(text: string, name: string): string {
  if (!parseSpawnRule(text))
    throw new EbbError('bad_usage', `${name} must be a rule such as "orchestrator>*" or "builder>tester:3", not "${text}".`)
  return text
}

export function parseCount(text: string, name: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new EbbError('bad_usage', `${name} must be a whole number of at least 1, not "${text}".`)
  return Number(text)
}
