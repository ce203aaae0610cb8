/** A command line that may be shown: short, and with nothing in it that opens a door. */

const most = 160
const mask = '***'

/** Names of options and variables whose value nobody should see. */
const secretName = /(key|token|secret|passw|pwd$|credential|auth|cookie|bearer|signature|session)/i

/** What keys of known makers begin with; and whatever is long and looks drawn by lot. */
const secretValue =
  /\b(sk-[\w-]{8,}|sk_[\w-]{8,}|gh[pousr]_\w{8,}|github_pat_\w+|xox[abprs]-[\w-]+|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|glpat-[\w-]+|npm_\w{20,}|eyJ[\w-]{10,}\.[\w-]+(\.[\w-]*)?|[0-9a-fA-F]{32,}|(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Z])(?=[A-Za-z0-9_-]*[a-z])[A-Za-z0-9_-]{32,})/g

/** `user:password@` in an address. */
const inAddress = /(\w+:\/\/)[^\s/@]+@/g

/** A command line may be megabytes of whatever its owner likes; of that only so much is looked at. */
const mostLooked = 2_000
const mostWord = 1_000

export function maskedWords(argv: readonly string[]): string {
  const shown: string[] = []
  let before = ''
  let program = ''
  let looked = 0
  for (const long of argv) {
    if (looked > mostLooked) break
    const word = beginning(long)
    looked += word.length + 1
    const isPassword = program !== '' && /^-p./.test(word)
    shown.push(isPassword ? `-p${mask}` : hides(before, word, program) ? mask : masked(word))
    before = word
    program = passwordTaker.exec(word)?.[1] ?? program
  }
  const text = shown.join(' ').replaceAll(/\s+/g, ' ').trim()
  const letters = Array.from(text)
  return letters.length > most ? `${letters.slice(0, most - 1).join('')}…` : text
}

/** Without the part that was cut in two: half a secret does not look like one. */
function beginning(word: string): string {
  return word.length > mostWord ? `${word.slice(0, mostWord).replace(/\S+$/, '')}…` : word
}

/** Whether the word before makes this one a secret: also one that begins like an option. */
function hides(before: string, word: string, program: string): boolean {
  if (!/^-[^=\s]*$/.test(before)) return false
  return isSecret(before, word) || (program === 'sshpass' && before === '-p')
}

const isSecret = (option: string, word: string): boolean => secretName.test(option) || (userOption.test(option) && word.includes(':'))

/** Of curl and its like: `NAME:PASSWORD`. */
const userOption = /^(-u|-U|--user|--proxy-user)$/

/** They take a password right after `-p`. */
const passwordTaker = /(?:^|\/)(sshpass|mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)$/

/** In quotes it may have blanks; a quote that was cut off ends with the word. */
const quoted = `"[^"]*(?:"|$)|'[^']*(?:'|$)`
const value = String.raw`(?:${quoted}|(?:\\.|[^\s"'&,;\\])(?:${quoted}|\\.|[^\s"'&,;\\])*)`

const assigned = new RegExp(String.raw`([\w.-]*)(["']?\s*[=:]\s*)(${value})`, 'g')
/** Looks back, so that a value that begins like an option hides what follows it, too. */
const optioned = new RegExp(String.raw`(?<=(?:^|[\s"'(])(-[\w-]+)\s+)${value}`, 'g')
const passwords = new RegExp(String.raw`(\bsshpass\s[^\n;|&]*?-p\s*|\b(?:mysql|mariadb)\S*\s[^\n;|&]*?\s-p)${value}`, 'g')
const joinedUser = /(?<=^|\s)(-u|--user=|--proxy-user=)[^\s:"']+:[^\s"']+/g

/** What a text says once each secret in it is hidden; quotes stay, so that it still reads as what it was. */
function masked(word: string): string {
  // An assignment that is a word of its own has no quotes any more, and all of it is the value.
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
