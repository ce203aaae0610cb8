import type { Containment, Tree } from './containment.ts'
export function subreaperAvailable(_require: NodeJS.Require): string | undefined {
  return 'koffi is not installed'
}
export class SubreaperContainment {
  constructor(_deps: unknown) {}
}
