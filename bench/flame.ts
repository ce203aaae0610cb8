/** One function in a tree of calls. */
export interface Frame {
  readonly name: string
  readonly selfUs: number
  readonly totalUs: number
  readonly children: readonly Frame[]
}

const width = 1_200
const rowHeight = 16

/** Callers are above callees. The width of a box is its share of the time. Its tooltip shows name and time. */
export function flameGraph(title: string, root: Frame): string {
  const boxes: string[] = []
  let deepest = 0
  const draw = (frame: Frame, left: number, depth: number): void => {
    const wide = (frame.totalUs / root.totalUs) * width
    if (wide < 0.5) return
    deepest = Math.max(deepest, depth)
    const top = (depth + 1) * rowHeight
    const says = `${frame.name} ${(frame.totalUs / 1_000).toFixed(1)} ms, itself ${(frame.selfUs / 1_000).toFixed(1)} ms`
    const label = wide > 40 ? `<text x="${left + 3}" y="${top + 12}">${escaped(frame.name.slice(0, Math.floor(wide / 6.5)))}</text>` : ''
    boxes.push(
      `<g><title>${escaped(says)}</title><rect x="${left}" y="${top}" width="${wide}" height="${rowHeight - 1}" fill="hsl(${hue(frame.name)} 70% 72%)"/>${label}</g>`,
    )
    let at = left
    for (const child of [...frame.children].sort((a, b) => b.totalUs - a.totalUs)) {
      draw(child, at, depth + 1)
      at += (child.totalUs / root.totalUs) * width
    }
  }
  draw(root, 0, 0)
  const height = (deepest + 3) * rowHeight
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="monospace" font-size="11"><rect width="${width}" height="${height}" fill="#fff"/><text x="3" y="12">${escaped(title)}</text>${boxes.join('')}</svg>\n`
}

/** The colour depends on the name only, so a function has the same colour everywhere. */
function hue(name: string): number {
  return [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 360, 7)
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
