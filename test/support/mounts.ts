import { execFileSync } from 'node:child_process'

/** Mounts for tests, which need root for them. Leaving the block unmounts them. */
export interface Mount extends Disposable {
  readonly point: string
}

export function tmpfs(point: string, size: string): Mount {
  return mount(['-t', 'tmpfs', '-o', `size=${size},mode=700`, 'ebb-test', point], point)
}

/** Bind mount: the contents of `from` appear at `point` too. */
export function bindMount(from: string, point: string): Mount {
  return mount(['--bind', from, point], point)
}

/** Makes `point` read-only. */
export function readOnly(point: string): Mount {
  const bound = bindMount(point, point)
  execFileSync('mount', ['-o', 'remount,ro,bind', point])
  return bound
}

function mount(options: readonly string[], point: string): Mount {
  execFileSync('mount', options)
  let isMounted = true
  return {
    point,
    [Symbol.dispose]: () => {
      if (isMounted) execFileSync('umount', [point])
      isMounted = false
    },
  }
}
