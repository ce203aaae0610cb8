/** For the compiler alone: the type of the handle under a label. */
declare const handleType: unique symbol

/**
 * The name of a resource in a plan, by which other resources of the plan refer to it. Its type says which handle the resource gives. A
 * label is a plain string at run time.
 */
export type Label<Handle = unknown> = string & { readonly [handleType]: Handle }

export function label<Handle = unknown>(name: string): Label<Handle> {
  return name as Label<Handle>
}

/**
 * The handles of the resources of a scope, by the labels of its plans. A handle is a live object, such as a child process, and exists only
 * in the process that created the resource or adopted it.
 */
export class Handles {
  readonly #handles = new Map<string, unknown>()

  add<Handle>(at: Label<Handle>, handle: Handle): void {
    this.#handles.set(at, handle)
  }

  /** Undefined when the scope has no such resource, or its kind gives no handle. */
  find<Handle>(at: Label<Handle>): Handle | undefined {
    // The compiler cannot follow a handle through the engine, which creates resources of any kind. The kind of the resource gives the handle
    // that its label promises: `planned` has checked this for a launch, and the type of `planLabel` for an adoption.
    return this.#handles.get(at) as Handle | undefined
  }

  /** Returns a handle, and throws when the scope has none under this label. */
  get<Handle>(at: Label<Handle>): Handle {
    const handle = this.find(at)
    if (handle === undefined) throw new Error(`There is no handle of the resource "${at}".`)
    return handle
  }
}
