/** Splits a line into words like a shell: at blanks outside of quotes and backslashes. Returns undefined while a quote is open. */
export function wordsOf(line: string): readonly string[] | undefined {
  const words: string[] = []
  let word: string | undefined
  let quote = ''
  for (let at = 0; at < line.length; at++) {
    const char = line[at] ?? ''
    if (quote === '' && /\s/.test(char)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else if (quote === '' && (char === '"' || char === "'")) {
      quote = char
      word ??= ''
    } else if (char === quote) quote = ''
    else if (char === '\\' && quote !== "'" && at + 1 < line.length) {
      at += 1
      word = (word ?? '') + (line[at] ?? '')
    } else word = (word ?? '') + char
  }
  if (quote !== '') return undefined
  if (word !== undefined) words.push(word)
  return words
}
