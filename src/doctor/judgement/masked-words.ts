/** Makes a command line fit to be shown: shortened, with secrets masked. */

const most = 160
const mask = '***'

/** Matches names of options and variables whose values are secrets. */
const secretName = /(key|token|secret|passw|pwd$|credential|auth|cookie|bearer|signature|session)/i

/** Matches keys by the prefixes of well-known services, and long words that look random. */
const secretValue =
  /\b(sk-[\w-]{8,}|sk_[\w-]{8,}|gh[pousr]_\w{8,}|github_pat_\w+|xox[abprs]-[\w-]+|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|glpat-[\w-]+|npm_\w{20,}|eyJ[\w-]{10,}\.[\w-]+(\.[\w-]*)?|[0-9a-fA-F]{32,}|(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Z])(?=[A-Za-z0-9_-]*[a-z])[A-Za-z0-9_-]{32,})/g

/** Matches `user:password@` in a URL. */
const inAddress = /(\w+:\/\/)[^\s/@]+@/g

/** The limits on the number of characters that are processed, because a command line can have megabytes of arbitrary text. */
const maxTotal = 2_000
const maxWord = 1_000

export function maskedWords(argv: readonly string[]): string {
  const shown: string[] = []
  let before = ''
  let program = ''
  let processed = 0
  for (const long of argv) {
    if (processed > maxTotal) break
    const word = beginning(long)
    processed += word.length + 1
    const isPassword = program !== '' && /^-p./.test(word)
    shown.push(isPassword ? `-p${mask}` : hides(before, word, program) ? mask : masked(word))
    before = word
    program = passwordTaker.exec(word)?.[1] ?? program
  }
  const text = shown.join(' ').replaceAll(/\s+/g, ' ').trim()
  const letters = Array.from(text)
  return letters.length > most ? `${letters.slice(0, most - 1).join('')}…` : text
}

/** The beginning of a long word. It is cut at a blank, because half of a secret would not be recognised as a secret. */
function beginning(word: string): string {
  return word.length > maxWord ? `${word.slice(0, maxWord).replace(/\S+$/, '')}…` : word
}

/** True when the previous word is an option with a secret value. The value may itself look like an option. */
function hides(before: string, word: string, program: string): boolean {
  if (!/^-[^=\s]*$/.test(before)) return false
  return isSecret(before, word) || (program === 'sshpass' && before === '-p')
}

const isSecret = (option: string, word: string): boolean => secretName.test(option) || (userOption.test(option) && word.includes(':'))

/** Options of curl and similar programs whose value is `NAME:PASSWORD`. */
const userOption = /^(-u|-U|--user|--proxy-user)$/

/** Programs that take a password directly after `-p`. */
const passwordTaker = /(?:^|\/)(sshpass|mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)$/

/** A quoted value may contain blanks. A quote without its end extends to the end of the word. */
const quoted = `"[^"]*(?:"|$)|'[^']*(?:'|$)`
const value = String.raw`(?:${quoted}|(?:\\.|[^\s"'&,;\\])(?:${quoted}|\\.|[^\s"'&,;\\])*)`

const assigned = new RegExp(String.raw`([\w.-]*)(["']?\s*[=:]\s*)(${value})`, 'g')
/**
 * Matches the value after an option. The option is in a lookbehind, so that a value that looks like an option is an option for the next
 * word, too.
 */
const optioned = new RegExp(String.raw`(?<=(?:^|[\s"'(])(-[\w-]+)\s+)${value}`, 'g')
const passwords = new RegExp(String.raw`(\bsshpass\s[^\n;|&]*?-p\s*|\b(?:mysql|mariadb)\S*\s[^\n;|&]*?\s-p)${value}`, 'g')
const joinedUser = /(?<=^|\s)(-u|--user=|--proxy-user=)[^\s:"']+:[^\s"']+/g

/** Replaces every secret in a text. Quotes stay, so that the text keeps its structure. */
function masked(word: string): string {
  // The shell has removed the quotes of an assignment that is a whole word, so the rest of the word is the value.
  const [, name = ''] = /^(-*[\w.-]+)=/.exec(word) ?? []
  if (secretName.test(name)) return `${name}=${mask}`
  return word
    .replaceAll(/(authorization["']?\s*[:=]\s*["']?)(?:(bearer|basic|token)\s+)?[^\s"']+/gi, `$1${mask}`)
    .replaceAll(/\b(bearer|basic)\s+[^\s"']+/gi, `$1 ${mask}`)
    .replaceAll(assigned, (whole, name: string, equals: string, text: string) =>
      secretName.test(name) ? `${name}${equals}${hidden(text)}` : whole,
    )
    .replaceAll(optioned, (text, option: string) => (isSecret(option, text) ? hidden(text) : text))
    .replaceAll(passwords, `$1${mask}`)
    .replaceAll(joinedUser, `$1${mask}`)
    .replaceAll(inAddress, `$1${mask}@`)
    .replaceAll(secretValue, mask)
}

function hidden(text: string): string {
  const [quote = ''] = /^["']/.exec(text) ?? []
  return `${quote}${mask}${quote}`
}
