/** A line as a shell would take it apart: blanks part, quotes and backslashes keep. Undefined while a quote is open. */
export function wordsOf(line: string): readonly string[] | undefined {
  const words: string[] = []
  let word: string | undefined
  let quote = ''
  for (let at = 0; at < line.length; at++) {
    const sign = line[at] ?? ''
    if (quote === '' && /\s/.test(sign)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else if (quote === '' && (sign === '"' || sign === "'")) {
      quote = sign
      word ??= ''
    } else if (sign === quote) quote = ''
    else if (sign === '\\' && quote !== "'" && at + 1 < line.length) {
      at += 1
      word = (word ?? '') + (line[at] ?? '')
    } else word = (word ?? '') + sign
  }
  if (quote !== '') return undefined
  if (word !== undefined) words.push(word)
  return words
}
