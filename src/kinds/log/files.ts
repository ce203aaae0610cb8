import { lstatSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'

export function sizeOf(path: string): number {
  return lstatSync(path, { throwIfNoEntry: false })?.size ?? 0
}

export function ignore(code: string, effect: () => void): void {
  try {
    effect()
  } catch (error) {
    if (errno(error) !== code) throw error
  }
}
